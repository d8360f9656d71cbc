"""How much the fuzzers try: `--fuzz-count N` and `--fuzz-seed S`."""

from pathlib import Path

import pytest

from fuzz_findings import Request


@pytest.fixture
def fuzz(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Request:
    folder: Path = tmp_path_factory.getbasetemp() / "findings" / request.node.name
    reporter = request.config.pluginmanager.getplugin("terminalreporter")
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def say(text: str) -> None:
        if reporter is not None and capture is not None:
            with capture.global_and_fixture_disabled():
                reporter.write_line(text)

    options = request.config.option
    return Request(options.fuzz_count, options.fuzz_seed, folder, say)
