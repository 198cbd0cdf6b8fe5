"""Archives whose bytes depend on nothing but their content: sorted names, one time, no owners."""

import datetime
import io
import tarfile
import zipfile
import zlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A file, or a symbolic link if `link` is set, in an archive."""

    path: str
    data: bytes = b""
    mode: int = 0o644
    link: str = ""


def program(path, data):
    return Entry(path, data, 0o755)


def with_folders(entries):
    """Returns the paths of all folders above the entries."""
    found = set()
    for entry in entries:
        parts = entry.path.split("/")[:-1]
        found.update("/".join(parts[: length + 1]) for length in range(len(parts)))
    return found


def tar(entries, epoch, folders=False):
    """A tar archive. `folders` adds the folders above the entries, which layers of images need."""
    listed = {entry.path: entry for entry in entries}
    if len(listed) != len(entries):
        raise ValueError(f"a path occurs twice in {sorted(entry.path for entry in entries)}")
    names = set(listed) | (with_folders(entries) if folders else set())
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(names):
            info = tarfile.TarInfo(name)
            info.mtime = epoch
            entry = listed.get(name)
            if entry is None:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(info)
            elif entry.link:
                info.type, info.mode, info.linkname = tarfile.SYMTYPE, 0o777, entry.link
                archive.addfile(info)
            else:
                info.mode, info.size = entry.mode, len(entry.data)
                archive.addfile(info, io.BytesIO(entry.data))
    return output.getvalue()


def gzip(data):
    """Compresses `data`. The header has neither a name nor a time."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, 31)
    return compressor.compress(data) + compressor.flush()


def tar_gz(entries, epoch):
    return gzip(tar(entries, epoch))


def zip_archive(entries, epoch):
    """A zip archive. The order is that of `entries`, because wheels end with their records."""
    moment = datetime.datetime.fromtimestamp(max(epoch, 315_532_800), datetime.UTC)
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w") as archive:
        for entry in entries:
            info = zipfile.ZipInfo(entry.path, moment.timetuple()[:6])
            info.create_system = 3
            info.external_attr = (0o100000 | entry.mode) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, entry.data, compresslevel=9)
    return output.getvalue()
