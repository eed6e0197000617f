"""What is said of a path, against what then happens when something is written there."""

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from verl_doctor.stores import filesystem
from verl_doctor.stores.filesystem import file_system_of, is_network, look_at


def test_a_folder_a_file_and_what_is_not_there(tmp_path):
    (tmp_path / "file").write_text("x")
    assert look_at(str(tmp_path)).is_folder
    assert look_at(str(tmp_path / "file")).exists
    missing = look_at(str(tmp_path / "a" / "b"))
    assert (missing.exists, missing.writable, missing.nearest) == (False, True, str(tmp_path))
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_a_file_in_the_way(tmp_path):
    (tmp_path / "file").write_text("x")
    place = look_at(str(tmp_path / "file" / "sub"))
    assert (place.writable, place.obstacle) == (False, f"{tmp_path}/file is a file")


def test_a_link_that_leads_nowhere(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    for path in (tmp_path / "link", tmp_path / "link" / "sub"):
        place = look_at(str(path))
        assert (place.writable, place.obstacle) == (False, f"{tmp_path}/link is a link that leads nowhere")
    with pytest.raises(FileExistsError):
        os.makedirs(tmp_path / "link")


def test_a_link_to_a_folder_is_that_folder(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert look_at(str(tmp_path / "link")).is_folder
    assert look_at(str(tmp_path / "link" / "new")).writable


def test_free_space_is_what_the_system_says(tmp_path):
    status = os.statvfs(tmp_path)
    place = look_at(str(tmp_path / "new"))
    assert abs(place.free_bytes - status.f_bavail * status.f_frsize) < 512 * 1024**2


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("mode", [0o777, 0o755, 0o711, 0o700, 0o722, 0o1777])
def test_another_user_is_told_what_then_happens(mode):
    folder = tempfile.mkdtemp(dir="/tmp")
    os.chmod(folder, mode)
    path = os.path.join(folder, "new")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgid(65534)
        os.setuid(65534)
        said = look_at(path).writable
        try:
            os.mkdir(path)
            happened = True
        except OSError:
            happened = False
        os.write(writer, b"same" if said == happened else b"differs")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 10) == b"same"
    subprocess.run(["rm", "-r", folder], check=True)


def test_a_folder_that_even_root_may_not_change(tmp_path):
    folder = tmp_path / "fixed"
    folder.mkdir()
    if subprocess.run(["chattr", "+i", str(folder)], capture_output=True, check=False).returncode != 0:
        pytest.skip("chattr is not possible here")
    try:
        place = look_at(str(folder / "new"))
        with pytest.raises(PermissionError):
            (folder / "new").mkdir()
    finally:
        subprocess.run(["chattr", "-i", str(folder)], check=True)
    assert (place.writable, place.obstacle) == (False, f"{folder} may not be written to by this user")


def test_a_read_only_mount_and_a_small_one(tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    options = "size=1m,nr_inodes=3,mode=777"
    if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(small)], capture_output=True, check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        (small / "file").write_bytes(b"x" * 500_000)
        (small / "other").touch()
        full = look_at(str(small / "new"))
        subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
        fixed = look_at(str(small / "new"))
    finally:
        subprocess.run(["umount", str(small)], check=True)
    assert full.file_system == "tmpfs"
    assert full.free_bytes < 600_000
    assert full.free_inodes == 0
    assert (fixed.writable, fixed.obstacle) == (False, f"{small} is on a read-only file system")


MOUNTS = """\
22 1 0:21 / / rw - ext4 /dev/vda rw
23 22 0:22 / /data rw - nfs4 server:/data rw
24 23 0:23 / /data/my\\040disk rw shared:1 - xfs /dev/vdb rw
25 22 0:24 / /mnt rw - ext4 /dev/vdc rw
26 22 0:25 / /mnt rw - fuse.sshfs host: rw
27 22 0:26 / /datastore rw - lustre server rw
a line of another form
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/me", "ext4"),
        ("/data", "nfs4"),
        ("/data/run", "nfs4"),
        ("/data/my disk/run", "xfs"),
        ("/mnt/run", "fuse.sshfs"),
        ("/datastore/x", "lustre"),
        ("/database", "ext4"),
    ],
)
def test_the_mount_that_counts(monkeypatch, tmp_path, path, kind):
    (tmp_path / "mounts").write_text(MOUNTS)
    monkeypatch.setattr(filesystem, "MOUNTS", str(tmp_path / "mounts"))
    assert file_system_of(path) == kind


def test_no_mount_table_says_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(filesystem, "MOUNTS", str(tmp_path / "none"))
    assert look_at(str(tmp_path)).file_system == ""


def test_the_real_mount_table_agrees_with_df(tmp_path):
    done = subprocess.run(["df", "--output=fstype", str(tmp_path)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("there is no df")
    assert file_system_of(str(tmp_path)) == done.stdout.split()[-1]


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "lustre", "cifs", "fuse.sshfs", "fuse.s3fs", "fuse.juicefs", "gpfs", "ceph"])
def test_network_file_systems(kind):
    assert is_network(kind)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "fuseblk", "fuse.fuse-overlayfs", ""])
def test_local_file_systems(kind):
    assert not is_network(kind)


def test_looking_leaves_the_folder_as_it_was(tmp_path):
    before = Path(tmp_path).stat()
    look_at(str(tmp_path / "x" / "y"))
    assert Path(tmp_path).stat() == before
