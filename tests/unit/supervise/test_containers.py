from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcpd.supervise.containers import WHERE, Containers
from mcpd.supervise.spawn import PreparedCommand

TAG = "d0:box:3"
ENV = {
    "PATH": "/bin",
    "DOCKER_HOST": "unix:///x",
    "DOCKER_AUTH_CONFIG": "secret",
    "TOKEN": "secret",
}


def launch(tmp_path: Path, line: str, program: str = "/usr/bin/docker") -> PreparedCommand:
    return PreparedCommand(argv=tuple(line.split()), program=program, env=ENV, cwd=str(tmp_path))


def test_a_container_gets_a_label_and_a_file_for_its_id(tmp_path: Path):
    """B008: a file that is there already would be refused."""
    containers = Containers(str(tmp_path), "d0")
    fitted, container = containers.fit(launch(tmp_path, "docker -D run -i --rm img"), tag=TAG)
    assert container is not None
    file = f"{tmp_path}/containers/d0-box-3.cid"
    added = (f"--label=mcpd.instance={TAG}", "--cidfile", file)
    assert fitted.argv == ("docker", "-D", "run", *added, "-i", "--rm", "img")
    assert (container.cidfile, container.is_ours, container.removes) == (file, True, True)
    assert container.argv == ("/usr/bin/docker", "-D")
    assert container.label == f"mcpd.instance={TAG}"
    assert os.listdir(tmp_path / "containers") == []
    assert (tmp_path / "containers").stat().st_mode & 0o777 == 0o700


def test_nothing_is_written_down_but_where_the_engine_is(tmp_path: Path):
    """B139: the record is a file, and what the server is told is not for files."""
    _, container = Containers(str(tmp_path), "d0").fit(launch(tmp_path, "docker run i"), tag=TAG)
    assert container is not None
    assert dict(container.env) == {"PATH": "/bin", "DOCKER_HOST": "unix:///x"}
    assert set(dict(container.env)) <= set(WHERE)


def test_what_runs_no_container_is_left_as_it_is(tmp_path: Path):
    given = launch(tmp_path, "npx -y docker run")
    assert Containers(str(tmp_path), "d0").fit(given, tag=TAG) == (given, None)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("there", [False, True])
def test_a_file_that_the_user_names_is_used_unless_it_is_an_old_one(tmp_path: Path, there: bool):
    """
    The engine refuses to start with one that exists, so the id in it is of another container.
    """
    if there:
        (tmp_path / "id").write_text("0" * 64)
    given = launch(tmp_path, "docker run --cidfile id img")
    fitted, container = Containers(str(tmp_path), "d0").fit(given, tag=TAG)
    assert container is not None
    assert fitted.argv[3:] == ("--cidfile", "id", "img")
    assert container.cidfile == ("" if there else str(tmp_path / "id"))
    assert not container.is_ours


def test_what_may_not_write_into_hidden_directories_is_found_by_its_label(tmp_path: Path):
    """
    A snap would be refused our file, and the server could not start.
    """
    (tmp_path / "snap").touch()
    (tmp_path / "docker").symlink_to("snap")
    given = launch(tmp_path, "docker run img", program=str(tmp_path / "docker"))
    fitted, container = Containers(str(tmp_path), "d0").fit(given, tag=TAG)
    assert container is not None
    assert container.cidfile == ""
    assert fitted.argv == ("docker", "run", f"--label=mcpd.instance={TAG}", "img")


def test_where_no_file_can_be_made_there_is_a_label_at_least(tmp_path: Path):
    """B121: a disk that is full, or a file in the way, is no reason not to start a server."""
    (tmp_path / "containers").touch()
    fitted, container = Containers(str(tmp_path), "d0").fit(
        launch(tmp_path, "docker run img"), tag=TAG
    )
    assert container is not None
    assert "--cidfile" not in fitted.argv
    assert container.cidfile == ""
