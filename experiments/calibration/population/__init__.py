"""The population of measured machines: what a library costs on a machine without measurements."""
