"""A small topology file of NCCL, and the refusal of a damaged one."""

from refusals import refusal
from topologies.readers.nccl_xml import read_nccl_xml

TWO = """<system version="1">
<cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
<pci busid="0000:01:00.0" class="0x030200" link_speed="8 GT/s" link_width="16">
<gpu dev="0" sm="80" rank="0">
<nvlink target="0000:02:00.0" count="4" tclass="0x030200"/>
</gpu>
</pci>
<pci busid="0000:02:00.0" class="0x030200" link_speed="8 GT/s" link_width="16">
<gpu dev="1" sm="80" rank="1">
<nvlink target="0000:01:00.0" count="4" tclass="0x030200"/>
</gpu>
</pci>
<pci busid="0000:03:00.0" class="0x020700" link_speed="8 GT/s" link_width="16">
<nic>
<net name="mlx5_0" dev="0" speed="100000" port="1" latency="0"/>
<net name="mlx5_1" dev="1" speed="100000" port="1"/>
</nic>
</pci>
</cpu>
</system>
"""


def refused(text: str, **kinds: str) -> str:
    return refusal(read_nccl_xml, text, "topo.xml", **kinds)
