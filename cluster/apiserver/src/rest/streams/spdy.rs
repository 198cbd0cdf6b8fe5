//! SPDY/3.1, as far as client-go speaks it: streams with headers, data, pings.
//!
//! client-go sends no window updates and expects none. Upstream: `github.com/moby/spdystream`.

use std::collections::HashMap;
use std::io;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use flate2::{Decompress, FlushDecompress};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::{ERROR, Input, Opened, Output, Pipes, RESIZE, STDERR, STDIN, STDOUT, close};

/// The largest frame of a client in bytes.
const MAX_FRAME: usize = 16 << 20;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GO_AWAY: u16 = 7;
/// The flag of the last frame of a stream.
const FIN: u8 = 1;
/// The bit of control frames.
const CONTROL: u32 = 1 << 31;
const VERSION: u16 = 3;

/// The first part of the dictionary of compressed headers: words, each after its length.
const WORDS: &str = include_str!("spdy_words.txt");
/// The rest of the dictionary.
const REST: &[&str] = &[
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505",
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Una",
    "uthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service",
    " UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, ",
    "Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,applicat",
    "ion/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf",
    "-8charset=iso-8859-1,utf-,*,enq=0.",
];

/// A frame of the client.
#[derive(Debug, PartialEq, Eq)]
enum Frame {
    Stream {
        id: u32,
        headers: HashMap<String, String>,
        is_last: bool,
    },
    Data {
        id: u32,
        data: Bytes,
        is_last: bool,
    },
    Reset(u32),
    Ping(Bytes),
    GoAway,
}

/// Takes frames from received bytes.
struct Decoder {
    received: BytesMut,
    inflater: Decompress,
    /// Whether the stream of compressed headers has begun.
    has_begun: bool,
}

impl Decoder {
    fn new() -> io::Result<Self> {
        let mut inflater = Decompress::new(false);
        // A stored block brings the dictionary into the window of the inflater.
        inflate(&mut inflater, &stored(&dictionary()), &mut Vec::new())?;
        Ok(Self {
            received: BytesMut::new(),
            inflater,
            has_begun: false,
        })
    }

    /// The next complete frame. Frames of other types are skipped.
    fn next(&mut self) -> io::Result<Option<Frame>> {
        loop {
            let Some(head) = self.received.first_chunk::<8>() else {
                return Ok(None);
            };
            let [a, b, c, d, flags, x, y, z] = *head;
            let first = u32::from_be_bytes([a, b, c, d]);
            let length = u32::from_be_bytes([0, x, y, z]) as usize;
            if length > MAX_FRAME {
                return Err(io::Error::other("a frame is too large"));
            }
            if self.received.len() < 8 + length {
                return Ok(None);
            }
            self.received.advance(8);
            let mut payload = self.received.split_to(length).freeze();
            let is_last = flags & FIN != 0;
            if first & CONTROL == 0 {
                return Ok(Some(Frame::Data {
                    id: first,
                    data: payload,
                    is_last,
                }));
            }
            let kind = u16::from_be_bytes([c, d]);
            match kind {
                SYN_STREAM if length >= 10 => {
                    let id = payload.get_u32();
                    payload.advance(6);
                    let headers = self.headers(&payload)?;
                    return Ok(Some(Frame::Stream {
                        id,
                        headers,
                        is_last,
                    }));
                }
                RST_STREAM if length >= 4 => return Ok(Some(Frame::Reset(payload.get_u32()))),
                PING => return Ok(Some(Frame::Ping(payload))),
                GO_AWAY => return Ok(Some(Frame::GoAway)),
                _ => {}
            }
        }
    }

    /// The compressed headers of a frame, with names in lower case.
    fn headers(&mut self, mut block: &[u8]) -> io::Result<HashMap<String, String>> {
        // The stream begins with the header of zlib and the checksum of the dictionary.
        if !std::mem::replace(&mut self.has_begun, true) {
            block = block.get(6..).unwrap_or_default();
        }
        let mut plain = Vec::new();
        inflate(&mut self.inflater, block, &mut plain)?;
        let broken = || io::Error::other("headers are malformed");
        let (count, mut rest) = plain.split_first_chunk::<4>().ok_or_else(broken)?;
        let mut text = || {
            let (length, after) = rest.split_first_chunk::<4>().ok_or_else(broken)?;
            let length = u32::from_be_bytes(*length) as usize;
            let (text, after) = after.split_at_checked(length).ok_or_else(broken)?;
            rest = after;
            Ok::<_, io::Error>(String::from_utf8_lossy(text).into_owned())
        };
        let mut headers = HashMap::new();
        for _ in 0..u32::from_be_bytes(*count) {
            let name = text()?.to_lowercase();
            headers.insert(name, text()?);
        }
        Ok(headers)
    }
}

fn inflate(inflater: &mut Decompress, mut block: &[u8], plain: &mut Vec<u8>) -> io::Result<()> {
    let mut piece = [0; 4096];
    loop {
        let read = inflater.total_in();
        let written = inflater.total_out();
        inflater
            .decompress(block, &mut piece, FlushDecompress::Sync)
            .map_err(io::Error::other)?;
        let read = (inflater.total_in() - read) as usize;
        let written = (inflater.total_out() - written) as usize;
        plain.extend_from_slice(&piece[..written]);
        block = &block[read..];
        if plain.len() > MAX_FRAME {
            return Err(io::Error::other("headers are too large"));
        }
        if (block.is_empty() && written < piece.len()) || read + written == 0 {
            return Ok(());
        }
    }
}

/// The dictionary of compressed headers.
fn dictionary() -> Vec<u8> {
    let mut all = Vec::new();
    for word in WORDS.lines() {
        all.put_u32(word.len() as u32);
        all.extend_from_slice(word.as_bytes());
    }
    REST.iter()
        .for_each(|part| all.extend_from_slice(part.as_bytes()));
    all
}

/// A block of data that DEFLATE leaves as it is.
fn stored(data: &[u8]) -> Vec<u8> {
    let length = data.len() as u16;
    let mut block = vec![0];
    block.put_u16_le(length);
    block.put_u16_le(!length);
    block.extend_from_slice(data);
    block
}

/// The answer to a new stream, with no headers. The first one of a connection `begins` the compressed stream.
fn reply(id: u32, begins: bool) -> Vec<u8> {
    let mut headers = Vec::new();
    if begins {
        headers.extend_from_slice(&[0x78, 0x01]);
    }
    headers.extend(stored(&0_u32.to_be_bytes()));
    // An empty block makes the inflater of the client hand out all before it.
    headers.extend(stored(&[]));
    let mut payload = id.to_be_bytes().to_vec();
    payload.extend(headers);
    control(SYN_REPLY, &payload)
}

fn control(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(8 + payload.len());
    frame.put_u16(0x8000 | VERSION);
    frame.put_u16(kind);
    frame.put_u32(payload.len() as u32);
    frame.extend_from_slice(payload);
    frame
}

fn data(id: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(8 + payload.len());
    frame.put_u32(id);
    frame.put_u32(u32::from(flags) << 24 | payload.len() as u32);
    frame.extend_from_slice(payload);
    frame
}

/// The streams of a connection. With awaited channels, a header names the channel of each stream; otherwise
/// the number of the stream is that of its channel.
struct Streams {
    awaited: Option<Vec<u32>>,
    /// Numbers of streams by channel.
    ids: HashMap<u32, u32>,
    has_replied: bool,
}

impl Streams {
    /// Whether the client has opened all channels that the work needs.
    fn is_complete(&self) -> bool {
        let mut awaited = self.awaited.iter().flatten();
        awaited.all(|channel| self.ids.contains_key(channel))
    }

    fn channel(&self, id: u32) -> Option<u32> {
        let mut all = self.ids.iter();
        all.find(|(_, known)| **known == id)
            .map(|(channel, _)| *channel)
    }

    /// Adds a stream. The event for the work is `None` if the work knows the channel by its name.
    fn open(&mut self, id: u32, headers: &HashMap<String, String>) -> Option<Input> {
        let header = |name: &str| headers.get(name).map(String::as_str).unwrap_or_default();
        let kind = header("streamtype");
        if self.awaited.is_none() {
            self.ids.insert(id, id);
            return Some(Input::Open(
                id,
                Opened {
                    is_error: kind == "error",
                    port: header("port").parse().unwrap_or_default(),
                    request: header("requestid").to_owned(),
                },
            ));
        }
        let channel = match kind {
            "stdin" => STDIN,
            "stdout" => STDOUT,
            "stderr" => STDERR,
            "resize" => RESIZE,
            _ => ERROR,
        };
        self.ids.insert(channel, id);
        None
    }
}

/// Carries channels until the work is done or the client is gone.
pub(super) async fn drive(
    io: impl AsyncRead + AsyncWrite + Unpin,
    awaited: Option<Vec<u32>>,
    (to_work, mut from_work): Pipes,
) -> io::Result<()> {
    let (mut reader, mut writer) = tokio::io::split(io);
    let mut decoder = Decoder::new()?;
    let mut streams = Streams {
        awaited,
        ids: HashMap::new(),
        has_replied: false,
    };
    let mut is_complete = false;
    loop {
        while let Some(frame) = decoder.next()? {
            let (inputs, answer): (Vec<Input>, _) = match frame {
                Frame::Stream {
                    id,
                    headers,
                    is_last,
                } => {
                    let opened = streams.open(id, &headers);
                    let begins = !std::mem::replace(&mut streams.has_replied, true);
                    let end = is_last.then(|| streams.channel(id)).flatten();
                    let inputs = opened.into_iter().chain(end.map(Input::End));
                    (inputs.collect(), Some(reply(id, begins)))
                }
                Frame::Data { id, data, is_last } => {
                    let channel = streams.channel(id);
                    let piece = channel.map(|channel| Input::Data(channel, data));
                    let end = channel.filter(|_| is_last).map(Input::End);
                    (piece.into_iter().chain(end).collect(), None)
                }
                Frame::Reset(id) => {
                    let channel = streams.channel(id);
                    (channel.map(Input::End).into_iter().collect(), None)
                }
                Frame::Ping(payload) => (Vec::new(), Some(control(PING, &payload))),
                Frame::GoAway => return Ok(()),
            };
            for input in inputs {
                // The work has an end of its own, before that of the client.
                drop(to_work.send(input));
            }
            if let Some(answer) = answer {
                writer.write_all(&answer).await?;
                writer.flush().await?;
            }
        }
        // An ended channel leaves the streams, and the work goes on.
        is_complete |= streams.is_complete();
        tokio::select! {
            read = reader.read_buf(&mut decoder.received) => if read? == 0 {
                return Ok(());
            },
            output = from_work.recv(), if is_complete => {
                let frame = match &output {
                    Some(Output::Data(channel, piece)) => {
                        streams.ids.get(channel).map(|id| data(*id, 0, piece))
                    }
                    Some(Output::End(channel)) => {
                        streams.ids.remove(channel).map(|id| data(id, FIN, &[]))
                    }
                    None => break,
                };
                if let Some(frame) = frame {
                    writer.write_all(&frame).await?;
                    writer.flush().await?;
                }
            }
        }
    }
    for id in streams.ids.values() {
        writer.write_all(&data(*id, FIN, &[])).await?;
    }
    writer.flush().await?;
    close(reader, writer).await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new stream of a client, with headers that are not compressed.
    fn opened(id: u32, headers: &[(&str, &str)], begins: bool) -> Vec<u8> {
        let mut plain = (headers.len() as u32).to_be_bytes().to_vec();
        for text in headers.iter().flat_map(|(name, value)| [name, value]) {
            plain.put_u32(text.len() as u32);
            plain.extend_from_slice(text.as_bytes());
        }
        let mut payload = id.to_be_bytes().to_vec();
        payload.extend([0; 6]);
        if begins {
            payload.extend([0x78, 0xbb, 0xe3, 0xc6, 0xa7, 0xc2]);
        }
        payload.extend(stored(&plain));
        payload.extend(stored(&[]));
        control(SYN_STREAM, &payload)
    }

    #[test]
    fn the_dictionary_has_the_checksum_that_clients_send() {
        let sum = dictionary().iter().fold((1_u32, 0_u32), |(a, b), byte| {
            let a = (a + u32::from(*byte)) % 65_521;
            (a, (b + a) % 65_521)
        });
        assert_eq!(sum.1 << 16 | sum.0, 0xe3c6_a7c2);
    }

    #[test]
    fn frames_are_read_in_pieces_of_any_size() {
        let mut sent = opened(1, &[("Streamtype", "stdout")], true);
        sent.extend(data(1, 0, b"one"));
        sent.extend(control(PING, &[0, 0, 0, 1]));
        sent.extend(control(4, &[0; 8]));
        sent.extend(opened(3, &[("a", "b"), ("c", "")], false));
        sent.extend(data(1, FIN, b""));
        sent.extend(control(GO_AWAY, &[0; 8]));
        let headers = |all: &[(&str, &str)]| {
            let all = all.iter();
            all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect()
        };
        let stream = |id, all: &[(&str, &str)]| Frame::Stream {
            id,
            headers: headers(all),
            is_last: false,
        };
        let piece = |data: &'static [u8], is_last| Frame::Data {
            id: 1,
            data: Bytes::from_static(data),
            is_last,
        };
        let expected = [
            stream(1, &[("streamtype", "stdout")]),
            piece(b"one", false),
            Frame::Ping(Bytes::from_static(&[0, 0, 0, 1])),
            stream(3, &[("a", "b"), ("c", "")]),
            piece(b"", true),
            Frame::GoAway,
        ];
        for size in [1, 5, sent.len()] {
            let mut decoder = Decoder::new().unwrap();
            let mut found = Vec::new();
            for part in sent.chunks(size) {
                decoder.received.extend_from_slice(part);
                while let Some(frame) = decoder.next().unwrap() {
                    found.push(frame);
                }
            }
            assert_eq!(found, expected, "pieces of {size}");
        }
    }
}
