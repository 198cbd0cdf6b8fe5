//! WebSocket messages (RFC 6455), on the side of the server.
//!
//! The first byte of a message is the channel. A tunnel has whole messages of another protocol.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};

use super::{Input, Opened, Output, Pipes, STDOUT, close};

/// The channel number of the message that ends a channel.
const CLOSED: u8 = 255;
/// The largest message of a client in bytes.
const MAX_MESSAGE: usize = 16 << 20;

const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// A message of the client.
#[derive(Debug, PartialEq, Eq)]
enum Message {
    Data(Bytes),
    Ping(Bytes),
    Close,
}

/// Takes messages from received bytes.
#[derive(Debug, Default)]
struct Decoder {
    received: BytesMut,
    /// The fragments of a message before its last one.
    fragments: BytesMut,
}

impl Decoder {
    /// The next complete message. Answers of pings are skipped.
    fn next(&mut self) -> io::Result<Option<Message>> {
        loop {
            let Some((head, length, start)) = self.head() else {
                return Ok(None);
            };
            if length > MAX_MESSAGE {
                return Err(io::Error::other("a message is too large"));
            }
            if self.received.len() < start + length {
                return Ok(None);
            }
            let mut frame = self.received.split_to(start + length);
            let mut payload = frame.split_off(start);
            let mask = [4, 3, 2, 1].map(|back| frame[start - back]);
            for (at, byte) in payload.iter_mut().enumerate() {
                *byte ^= mask[at % 4];
            }
            match head & 0x0f {
                PING => return Ok(Some(Message::Ping(payload.freeze()))),
                PONG => {}
                CLOSE => return Ok(Some(Message::Close)),
                _ => {
                    self.fragments.unsplit(payload);
                    if head & 0x80 != 0 {
                        let whole = self.fragments.split();
                        return Ok(Some(Message::Data(whole.freeze())));
                    }
                }
            }
        }
    }

    /// The first byte of a frame, the length of its payload, and the place where it starts.
    fn head(&self) -> Option<(u8, usize, usize)> {
        let [head, length, rest @ ..] = &self.received[..] else {
            return None;
        };
        let (length, size) = match length & 0x7f {
            126 => (u16::from_be_bytes(*rest.first_chunk()?).into(), 2),
            127 => {
                let length = u64::from_be_bytes(*rest.first_chunk()?);
                (usize::try_from(length).unwrap_or(usize::MAX), 8)
            }
            short => (short.into(), 0),
        };
        // Clients mask each frame with four bytes.
        let start = 2 + size + 4;
        (self.received.len() >= start).then_some((*head, length, start))
    }
}

/// A complete frame of the server.
fn frame(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut frame = vec![0x80 | kind];
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short), _) if short < 126 => frame.push(short),
        (_, Ok(medium)) => {
            frame.push(126);
            frame.extend_from_slice(&medium.to_be_bytes());
        }
        _ => {
            frame.push(127);
            frame.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    parts.iter().for_each(|part| frame.extend_from_slice(part));
    frame
}

async fn write(
    writer: &mut (impl AsyncWrite + Unpin),
    kind: u8,
    parts: &[&[u8]],
) -> io::Result<()> {
    writer.write_all(&frame(kind, parts)).await?;
    writer.flush().await
}

/// Carries channels. With `ports`, each one has a channel of data and one of errors, both of which begin
/// with its number. In the protocol with `closing`, a message ends a channel.
pub(super) async fn drive(
    io: impl AsyncRead + AsyncWrite + Unpin,
    ports: &[u16],
    closing: bool,
    (to_work, mut from_work): Pipes,
) -> io::Result<()> {
    let (mut reader, mut writer) = tokio::io::split(io);
    let mut decoder = Decoder::default();
    // An empty message tells clients that a command has begun.
    if ports.is_empty() {
        write(&mut writer, BINARY, &[&[byte(STDOUT)]]).await?;
    }
    for (index, port) in (0..).zip(ports) {
        for (channel, is_error) in [(2 * index + 1, true), (2 * index, false)] {
            let opened = Opened {
                is_error,
                port: *port,
                request: index.to_string(),
            };
            drop(to_work.send(Input::Open(channel, opened)));
            write(
                &mut writer,
                BINARY,
                &[&[byte(channel)], &port.to_le_bytes()],
            )
            .await?;
        }
    }
    loop {
        while let Some(message) = decoder.next()? {
            match message {
                Message::Data(mut data) if !data.is_empty() => {
                    let input = match data.get_u8() {
                        CLOSED if closing && !data.is_empty() => Input::End(data.get_u8().into()),
                        channel => Input::Data(channel.into(), data),
                    };
                    // The work has an end of its own, before that of the client.
                    drop(to_work.send(input));
                }
                Message::Data(_) => {}
                Message::Ping(payload) => write(&mut writer, PONG, &[&payload]).await?,
                Message::Close => return write(&mut writer, CLOSE, &[]).await,
            }
        }
        tokio::select! {
            read = reader.read_buf(&mut decoder.received) => if read? == 0 {
                return Ok(());
            },
            output = from_work.recv() => match output {
                Some(Output::Data(channel, data)) => {
                    write(&mut writer, BINARY, &[&[byte(channel)], &data]).await?;
                }
                Some(Output::End(_)) => {}
                None => break,
            },
        }
    }
    write(&mut writer, CLOSE, &[&1000_u16.to_be_bytes()]).await?;
    close(reader, writer).await
}

fn byte(channel: u32) -> u8 {
    u8::try_from(channel).unwrap_or(CLOSED)
}

/// Carries the bytes of `inner` in messages, until one side ends.
pub(super) async fn tunnel(
    io: impl AsyncRead + AsyncWrite + Unpin,
    inner: DuplexStream,
) -> io::Result<()> {
    let (mut reader, mut writer) = tokio::io::split(io);
    let (mut from_inner, mut to_inner) = tokio::io::split(inner);
    let mut decoder = Decoder::default();
    let mut piece = BytesMut::new();
    loop {
        while let Some(message) = decoder.next()? {
            match message {
                Message::Data(data) => to_inner.write_all(&data).await?,
                Message::Ping(payload) => write(&mut writer, PONG, &[&payload]).await?,
                Message::Close => return write(&mut writer, CLOSE, &[]).await,
            }
        }
        tokio::select! {
            read = reader.read_buf(&mut decoder.received) => if read? == 0 {
                return Ok(());
            },
            read = from_inner.read_buf(&mut piece) => {
                if read? == 0 {
                    return write(&mut writer, CLOSE, &[&1000_u16.to_be_bytes()]).await;
                }
                write(&mut writer, BINARY, &[&piece.split()]).await?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of a client, which masks it.
    fn masked(head: u8, payload: &[u8]) -> Vec<u8> {
        let mask = [1, 2, 3, 4];
        let mut frame = frame(head & 0x0f, &[payload]);
        frame[0] = head;
        frame[1] |= 0x80;
        let start = frame.len() - payload.len();
        for (at, byte) in frame[start..].iter_mut().enumerate() {
            *byte ^= mask[at % 4];
        }
        frame.splice(start..start, mask);
        frame
    }

    #[test]
    fn messages_are_read_in_pieces_of_any_size() {
        let long = vec![b'x'; 70_000];
        let mut sent = masked(0x80 | BINARY, b"\0one");
        sent.extend(masked(0x80 | PING, b"?"));
        sent.extend(masked(BINARY, b"\0tw"));
        sent.extend(masked(0x80, b"o"));
        sent.extend(masked(0x80 | PONG, b""));
        sent.extend(masked(0x80 | BINARY, &long));
        sent.extend(masked(0x80 | CLOSE, b""));
        let expected = [
            Message::Data(Bytes::from_static(b"\0one")),
            Message::Ping(Bytes::from_static(b"?")),
            Message::Data(Bytes::from_static(b"\0two")),
            Message::Data(long.into()),
            Message::Close,
        ];
        for size in [1, 7, sent.len()] {
            let mut decoder = Decoder::default();
            let mut found = Vec::new();
            for piece in sent.chunks(size) {
                decoder.received.extend_from_slice(piece);
                while let Some(message) = decoder.next().unwrap() {
                    found.push(message);
                }
            }
            assert_eq!(found, expected, "pieces of {size}");
        }
    }

    #[test]
    fn a_message_beyond_the_limit_is_an_error() {
        let mut decoder = Decoder::default();
        let head = [0x82, 0xff, 0, 0, 0, 0, 0x7f, 0, 0, 0, 0, 0, 0, 0];
        decoder.received.extend_from_slice(&head);
        assert!(decoder.next().is_err());
    }
}
