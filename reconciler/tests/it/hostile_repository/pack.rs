//! Objects as only a hostile program writes them.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use git2::{ObjectType, Oid};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use crate::support::Fleet;

const BLOB: u8 = 3;
const OFFSET_DELTA: u8 = 6;

/// A pack that is being written.
struct Pack {
    bytes: Vec<u8>,
    entries: Vec<(Oid, usize)>,
}

impl Pack {
    fn new() -> Self {
        Self { bytes: b"PACK\0\0\0\x02\0\0\0\0".to_vec(), entries: Vec::new() }
    }

    /// Adds an entry that is known under an id, true or not; `zlib` writes what is packed.
    fn add(
        &mut self,
        id: Oid,
        kind: u8,
        size: usize,
        base: Option<usize>,
        zlib: impl FnOnce(&mut ZlibEncoder<&mut Vec<u8>>),
    ) -> usize {
        let at = self.bytes.len();
        self.entries.push((id, at));
        let (mut rest, mut byte) = (size >> 4, (kind << 4) | (size & 15) as u8);
        while rest > 0 {
            self.bytes.push(byte | 0x80);
            (byte, rest) = ((rest & 127) as u8, rest >> 7);
        }
        self.bytes.push(byte);
        if let Some(base) = base {
            let mut back = at - base;
            let mut bytes = vec![(back & 127) as u8];
            back >>= 7;
            while back > 0 {
                back -= 1;
                bytes.push(0x80 | (back & 127) as u8);
                back >>= 7;
            }
            self.bytes.extend(bytes.into_iter().rev());
        }
        let mut encoder = ZlibEncoder::new(&mut self.bytes, Compression::fast());
        zlib(&mut encoder);
        encoder.finish().unwrap();
        at
    }

    fn write(mut self, fleet: &Fleet) {
        self.bytes[8..12].copy_from_slice(&(self.entries.len() as u32).to_be_bytes());
        let checksum = digest(&SHA1_FOR_LEGACY_USE_ONLY, &self.bytes);
        self.bytes.extend_from_slice(checksum.as_ref());
        self.entries.sort();
        let mut index = b"\xfftOc\0\0\0\x02".to_vec();
        for first in 0..=255_u8 {
            let count = self.entries.iter().filter(|(id, _)| id.as_bytes()[0] <= first).count() as u32;
            index.extend_from_slice(&count.to_be_bytes());
        }
        self.entries.iter().for_each(|(id, _)| index.extend_from_slice(id.as_bytes()));
        self.entries.iter().for_each(|_| index.extend_from_slice(&[0; 4]));
        self.entries.iter().for_each(|(_, at)| index.extend_from_slice(&(*at as u32).to_be_bytes()));
        index.extend_from_slice(checksum.as_ref());
        let end = digest(&SHA1_FOR_LEGACY_USE_ONLY, &index);
        index.extend_from_slice(end.as_ref());
        let folder = fleet.folder().join("fleet.git/objects/pack");
        std::fs::create_dir_all(&folder).unwrap();
        let name: String = checksum.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        std::fs::write(folder.join(format!("pack-{name}.pack")), self.bytes).unwrap();
        std::fs::write(folder.join(format!("pack-{name}.idx")), index).unwrap();
    }
}

fn number(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 127 {
        bytes.push((value & 127) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A delta that makes `content` of any base of that size: it inserts all of it.
fn delta(base: usize, content: &[u8]) -> Vec<u8> {
    let mut bytes = [number(base), number(content.len())].concat();
    for part in content.chunks(127) {
        bytes.push(part.len() as u8);
        bytes.extend_from_slice(part);
    }
    bytes
}

fn zeros(encoder: &mut impl std::io::Write, size: usize) {
    let block = vec![0_u8; 1 << 20];
    for _ in 0..size >> 20 {
        encoder.write_all(&block).unwrap();
    }
    encoder.write_all(&block[..size & ((1 << 20) - 1)]).unwrap();
}

/// An id that no object has.
fn made_up(number: u64) -> Oid {
    let mut bytes = [0xee; 20];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    Oid::from_bytes(&bytes).unwrap()
}

/// A small blob that is a delta of one of so many zeros.
pub fn delta_of(fleet: &Fleet, size: usize, content: &[u8]) -> Oid {
    let id = Oid::hash_object(ObjectType::Blob, content).unwrap();
    let mut pack = Pack::new();
    let base = pack.add(made_up(1), BLOB, size, None, |encoder| zeros(encoder, size));
    let bytes = delta(size, content);
    pack.add(id, OFFSET_DELTA, bytes.len(), Some(base), |encoder| encoder.write_all(&bytes).unwrap());
    pack.write(fleet);
    id
}

/// A small blob that lies on so many deltas.
pub fn chain(fleet: &Fleet, length: u64) -> Oid {
    let content = b"chain: true\n";
    let id = Oid::hash_object(ObjectType::Blob, content).unwrap();
    let mut pack = Pack::new();
    let mut base = pack.add(made_up(0), BLOB, content.len(), None, |encoder| encoder.write_all(content).unwrap());
    for number in 1..=length {
        let bytes = delta(content.len(), content);
        let own = if number == length { id } else { made_up(number) };
        base = pack.add(own, OFFSET_DELTA, bytes.len(), Some(base), |encoder| encoder.write_all(&bytes).unwrap());
    }
    pack.write(fleet);
    id
}

/// A blob with a file of its own that declares one size and has another.
pub fn loose(fleet: &Fleet, declared: usize, size: usize) -> Oid {
    let id = made_up(declared as u64);
    let text = id.to_string();
    let folder = fleet.folder().join("fleet.git/objects").join(&text[..2]);
    std::fs::create_dir_all(&folder).unwrap();
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    write!(encoder, "blob {declared}\0").unwrap();
    zeros(&mut encoder, size);
    std::fs::write(folder.join(&text[2..]), encoder.finish().unwrap()).unwrap();
    id
}
