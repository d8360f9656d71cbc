"""Readers and writers of measured data, one package for each format."""
