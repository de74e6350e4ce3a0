//! Compresses small objects.
//!
//! A general compressor clears hundreds of kilobytes of tables for every stream, which costs more than compressing a
//! manifest of one kilobyte. This one keeps 8 KiB and writes one block with the fixed codes of RFC 1951 in the wrapper of
//! RFC 1950; large objects go to the general one, which compresses better.

use crate::error::GitError;
use flate2::{Compress, Compression, FlushCompress, Status};

/// Objects up to this size are compressed here, in bytes. Positions must fit into 16 bits.
const SMALL: usize = 16 << 10;
/// Positions by hash of four bytes; a power of two.
const SLOTS: usize = 4096;
const SHORTEST: usize = 4;
const LONGEST: usize = 258;

/// First length of each length code, from 257 on, and its extra bits (RFC 1951, 3.2.5).
const LENGTHS: [(u16, u8); 29] = [
    (3, 0),
    (4, 0),
    (5, 0),
    (6, 0),
    (7, 0),
    (8, 0),
    (9, 0),
    (10, 0),
    (11, 1),
    (13, 1),
    (15, 1),
    (17, 1),
    (19, 2),
    (23, 2),
    (27, 2),
    (31, 2),
    (35, 3),
    (43, 3),
    (51, 3),
    (59, 3),
    (67, 4),
    (83, 4),
    (99, 4),
    (115, 4),
    (131, 5),
    (163, 5),
    (195, 5),
    (227, 5),
    (258, 0),
];
/// First distance of each distance code and its extra bits.
const DISTANCES: [(u16, u8); 30] = [
    (1, 0),
    (2, 0),
    (3, 0),
    (4, 0),
    (5, 1),
    (7, 1),
    (9, 2),
    (13, 2),
    (17, 3),
    (25, 3),
    (33, 4),
    (49, 4),
    (65, 5),
    (97, 5),
    (129, 6),
    (193, 6),
    (257, 7),
    (385, 7),
    (513, 8),
    (769, 8),
    (1025, 9),
    (1537, 9),
    (2049, 10),
    (3073, 10),
    (4097, 11),
    (6145, 11),
    (8193, 12),
    (12289, 12),
    (16385, 13),
    (24577, 13),
];

/// Compresses one object after another.
pub(crate) struct Compressor {
    /// Position after the last place where four bytes of this hash began; 0 for none.
    last: [u16; SLOTS],
    large: Option<Compress>,
}

impl Compressor {
    pub(crate) fn new() -> Self {
        Self { last: [0; SLOTS], large: None }
    }

    /// Appends the zlib stream of `content` to `bytes`.
    pub(crate) fn compress(&mut self, content: &[u8], bytes: &mut Vec<u8>) -> Result<(), GitError> {
        if content.len() > SMALL {
            let large = self.large.get_or_insert_with(|| Compress::new(Compression::fast(), true));
            return compress_large(large, content, bytes);
        }
        bytes.reserve(content.len() + content.len() / 8 + 16);
        bytes.extend_from_slice(&[0x78, 0x01]);
        let mut bits = Bits { bytes, held: 0, count: 0 };
        // The last block, with fixed codes.
        bits.put(0b011, 3);
        self.block(content, &mut bits);
        bits.end();
        bytes.extend_from_slice(&adler32(content).to_be_bytes());
        Ok(())
    }

    fn block(&mut self, content: &[u8], bits: &mut Bits<'_>) {
        self.last.fill(0);
        let mut at = 0;
        while let Some(byte) = content.get(at) {
            match self.earlier(content, at) {
                Some((distance, length)) => {
                    put_length(bits, length);
                    put_distance(bits, distance);
                    at += length;
                }
                None => {
                    put_symbol(bits, u16::from(*byte));
                    at += 1;
                }
            }
        }
        put_symbol(bits, 256);
    }

    /// Where the text at `at` was seen before, as distance and length; notes the place.
    fn earlier(&mut self, content: &[u8], at: usize) -> Option<(usize, usize)> {
        let here = content.get(at..)?;
        let key = here.first_chunk::<SHORTEST>()?;
        let hash = (u32::from_le_bytes(*key).wrapping_mul(2_654_435_761) >> 20) as usize;
        let slot = self.last.get_mut(hash)?;
        let before = usize::from(std::mem::replace(slot, u16::try_from(at + 1).ok()?)).checked_sub(1)?;
        let there = content.get(before..)?;
        let length = here.iter().zip(there).take(LONGEST).take_while(|(one, two)| one == two).count();
        (length >= SHORTEST).then_some((at - before, length))
    }
}

/// Collects bits from the lowest up.
struct Bits<'a> {
    bytes: &'a mut Vec<u8>,
    held: u64,
    count: u32,
}

impl Bits<'_> {
    fn put(&mut self, value: u32, count: u32) {
        self.held |= u64::from(value) << self.count;
        self.count += count;
        if self.count >= 32 {
            self.bytes.extend_from_slice(&(self.held as u32).to_le_bytes());
            self.held >>= 32;
            self.count -= 32;
        }
    }

    /// Codes are written from their highest bit.
    fn put_code(&mut self, code: u32, count: u32) {
        self.put(code.reverse_bits() >> (32 - count), count);
    }

    fn end(self) {
        let left = self.count.div_ceil(8) as usize;
        self.bytes.extend(self.held.to_le_bytes().into_iter().take(left));
    }
}

/// The fixed codes of RFC 1951, 3.2.6.
fn put_symbol(bits: &mut Bits<'_>, symbol: u16) {
    let symbol = u32::from(symbol);
    match symbol {
        0..=143 => bits.put_code(0x30 + symbol, 8),
        144..=255 => bits.put_code(0x190 + symbol - 144, 9),
        256..=279 => bits.put_code(symbol - 256, 7),
        _ => bits.put_code(0xc0 + symbol - 280, 8),
    }
}

fn put_length(bits: &mut Bits<'_>, length: usize) {
    let (code, first, extra) = coded(&LENGTHS, length);
    put_symbol(bits, 257 + code);
    bits.put((length - first) as u32, extra);
}

fn put_distance(bits: &mut Bits<'_>, distance: usize) {
    let (code, first, extra) = coded(&DISTANCES, distance);
    bits.put_code(u32::from(code), 5);
    bits.put((distance - first) as u32, extra);
}

/// The code of a value: its number, its first value and its extra bits.
fn coded(table: &[(u16, u8)], value: usize) -> (u16, usize, u32) {
    let code = table.partition_point(|(first, _)| usize::from(*first) <= value).saturating_sub(1);
    let (first, extra) = table.get(code).copied().unwrap_or_default();
    (code as u16, usize::from(first), u32::from(extra))
}

/// The checksum of RFC 1950. Sums of 16 KiB fit into 32 bits when they are reduced every 4 KiB.
fn adler32(content: &[u8]) -> u32 {
    const MODULUS: u32 = 65_521;
    let (mut low, mut high) = (1_u32, 0_u32);
    for chunk in content.chunks(4096) {
        for byte in chunk {
            low += u32::from(*byte);
            high += low;
        }
        low %= MODULUS;
        high %= MODULUS;
    }
    (high << 16) | low
}

fn compress_large(compressor: &mut Compress, content: &[u8], bytes: &mut Vec<u8>) -> Result<(), GitError> {
    compressor.reset();
    let mut input = content;
    loop {
        bytes.reserve(input.len() / 2 + 128);
        let before = compressor.total_in();
        let status = compressor.compress_vec(input, bytes, FlushCompress::Finish).map_err(|error| {
            GitError::Library { action: "compress a new object".to_owned(), message: error.to_string() }
        })?;
        let read = usize::try_from(compressor.total_in() - before).unwrap_or(usize::MAX);
        input = input.get(read..).unwrap_or_default();
        match status {
            Status::StreamEnd => return Ok(()),
            Status::Ok | Status::BufError => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::ZlibDecoder;
    use proptest::prelude::*;

    use super::*;

    /// Compresses with a compressor that has seen other things, and gives the length of the result.
    fn round_trip(compressor: &mut Compressor, content: &[u8]) -> usize {
        let mut bytes = b"before".to_vec();
        compressor.compress(content, &mut bytes).unwrap();
        let mut inflated = Vec::new();
        ZlibDecoder::new(&bytes[6..]).read_to_end(&mut inflated).unwrap();
        assert!(inflated == content, "{} bytes came back as {}", content.len(), inflated.len());
        bytes.len() - 6
    }

    #[test]
    fn every_length_and_distance_survives() {
        let mut compressor = Compressor::new();
        for length in 0..600 {
            round_trip(&mut compressor, &vec![b'a'; length]);
            let words: Vec<u8> = (0..length).map(|at| b"abcdefg"[at % 7]).collect();
            round_trip(&mut compressor, &words);
        }
        let noise: Vec<u8> = (0..20_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for distance in (4..16_000).step_by(97) {
            let content = [&noise[..distance], &noise[..100.min(distance)]].concat();
            round_trip(&mut compressor, &content);
        }
        for size in [SMALL - 1, SMALL, SMALL + 1, 20_000] {
            round_trip(&mut compressor, &noise[..size]);
        }
    }

    #[test]
    fn manifests_become_smaller() {
        let text = "- name: registry.example.com/cilium/manager\n  newTag: v1.18.4-0\n".repeat(20);
        assert!(round_trip(&mut Compressor::new(), text.as_bytes()) < text.len() / 5);
    }

    proptest! {
        #[test]
        fn what_is_compressed_inflates_to_itself(
            parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..60),
            order in proptest::collection::vec(any::<proptest::sample::Index>(), 0..120),
        ) {
            let content: Vec<u8> =
                if parts.is_empty() { Vec::new() } else { order.iter().flat_map(|at| at.get(&parts).clone()).collect() };
            round_trip(&mut Compressor::new(), &content);
        }
    }
}
