//! Archives in the form of `tar`, as far as `kubectl cp` needs it: plain files with short names.

use bytes::Bytes;

use super::Files;

/// The size of a block. Headers and contents begin at its multiples.
const BLOCK: usize = 512;

/// An archive of the files. Names lose the slash at their beginning, as with `tar`.
pub(crate) fn pack(files: &Files) -> Vec<u8> {
    let mut archive = Vec::new();
    for (path, content) in files {
        archive.extend_from_slice(&header(path.trim_start_matches('/'), content.len()));
        archive.extend_from_slice(content);
        archive.resize(archive.len().next_multiple_of(BLOCK), 0);
    }
    archive.resize(archive.len() + 2 * BLOCK, 0);
    archive
}

fn header(name: &str, size: usize) -> [u8; BLOCK] {
    let mut header = [0; BLOCK];
    let mut put = |at: usize, text: &[u8]| header[at..at + text.len()].copy_from_slice(text);
    put(0, &name.as_bytes()[..name.len().min(100)]);
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{size:011o}\0").as_bytes());
    put(136, b"00000000000\0");
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

/// The files of a complete archive in `folder`; `None` before its end has come.
pub(crate) fn unpack(archive: &[u8], folder: &str) -> Option<Files> {
    let mut files = Files::new();
    let mut rest = archive;
    loop {
        let (header, body) = rest.split_at_checked(BLOCK)?;
        if header.iter().all(|byte| *byte == 0) {
            return Some(files);
        }
        let field = |from: usize, to: usize| {
            let text = header[from..to].split(|byte| *byte == 0).next();
            String::from_utf8_lossy(text.unwrap_or_default()).into_owned()
        };
        let size = usize::from_str_radix(field(124, 136).trim(), 8).unwrap_or_default();
        let content = body.get(..size)?;
        if matches!(header[156], b'0' | 0) {
            let name = match field(345, 500) {
                prefix if prefix.is_empty() => field(0, 100),
                prefix => format!("{prefix}/{}", field(0, 100)),
            };
            let path = format!("{}/{name}", folder.trim_end_matches('/'));
            files.insert(path, Bytes::copy_from_slice(content));
        }
        rest = body.get(size.next_multiple_of(BLOCK)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_read_when_it_is_complete() {
        let files = Files::from([
            ("/a/b".to_owned(), Bytes::from("one")),
            ("/c".to_owned(), Bytes::from(vec![b'x'; 700])),
        ]);
        let archive = pack(&files);
        assert_eq!(unpack(&archive, "/"), Some(files));
        let moved = unpack(&archive, "/tmp/").unwrap();
        assert_eq!(moved.keys().collect::<Vec<_>>(), ["/tmp/a/b", "/tmp/c"]);
        assert_eq!(unpack(&archive[..archive.len() - 2 * BLOCK], "/"), None);
        assert_eq!(unpack(&archive[..600], "/"), None);
    }
}
