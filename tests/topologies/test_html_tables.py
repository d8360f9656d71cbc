from dataclasses import replace

from parsed_html import Parsed
from topologies.clusters import cluster
from topologies.html_tables import facts, table
from topologies.shapes import star

HOSTILE = "<script>alert('1')</script>\"&\0"


def test_whatever_a_value_holds_is_text() -> None:
    for html in (table([HOSTILE], [[HOSTILE]]), facts(HOSTILE, [(HOSTILE, HOSTILE)])):
        parsed = Parsed(html)
        assert "script" not in parsed.tags
        assert HOSTILE.replace("\0", "\N{REPLACEMENT CHARACTER}") in parsed.rows[-1]


def test_a_table_has_its_first_rows_and_counts_the_others() -> None:
    html = table(["n"], [[n] for n in range(10)], most=3)
    assert Parsed(html).rows == [["n"], ["0"], ["1"], ["2"]]
    assert "and 7 more rows" in html
    assert "more" not in table(["n"], [[1]], most=1)


def test_a_topology_shows_its_devices_and_links() -> None:
    rows = Parsed(cluster("hgx_h100")._repr_html_()).rows
    assert ["ranks", "8"] in rows
    assert ["devices", "2 cpu, 4 pcie switch, 8 gpu, 8 nic, 1 nvswitch"] in rows
    assert ["nvlink", "16", "370.8GB/s", "300ns"] in rows


def test_the_names_of_a_topology_are_escaped() -> None:
    html = replace(star(4, bandwidth=1e9), name=HOSTILE)._repr_html_()
    assert "script" not in Parsed(html).tags
    assert "<script" not in html
