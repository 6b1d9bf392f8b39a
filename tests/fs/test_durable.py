"""Durable files on their own, without a session."""

from greenroom.fs import durable


def test_a_file_in_the_working_directory_is_replaced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for data in (b"one", b"two"):
        durable.replace("rules.json", data, beside=".rules.json.new")
    assert (tmp_path / "rules.json").read_bytes() == b"two"
    assert [each.name for each in tmp_path.iterdir()] == ["rules.json"]
