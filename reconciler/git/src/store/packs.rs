//! What reading a packed object costs, told by the headers of its pack before anything is inflated.
//!
//! The library inflates the base of a delta, and that one's base, however large they are: whoever pushes a pack chooses them.
//! So the chain is followed here, header by header, and only what is affordable is given to the library.
//! Formats: gitformat-pack(5).

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use flate2::read::ZlibDecoder;
use flate2::{Decompress, FlushDecompress};
use git2::Oid;
use overlays::Remembered;

use host::disk;
use host::memory::Part;

/// git itself writes no longer chains of deltas (`pack.depth`).
const LONGEST_CHAIN: u32 = 4095;

/// Indexes up to this size are kept in memory, in bytes; others are read where they lie.
const SMALL_INDEX: u64 = 256 << 10;

/// Entries of an index that are read at once.
const BUCKET: u64 = 256;

/// How soon packs are listed once more where nothing shows that they have changed.
const SOONEST: Duration = Duration::from_millis(50);

/// How exact the times are that a file system gives its folders.
const UNCERTAIN: Duration = Duration::from_secs(2);

/// What reading an object costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Bytes of the object.
    pub size: u64,
    /// Bytes of everything that is inflated to make it: bases, and the deltas between them.
    pub bases: u64,
    /// Bytes of the largest of these.
    pub largest: u64,
    /// How many deltas lie on each other.
    pub deltas: u32,
}

impl Cost {
    /// An object that is stored whole.
    pub(crate) fn whole(size: u64) -> Self {
        Self { size, ..Self::default() }
    }

    /// The more of both, in every respect.
    fn or(self, other: Self) -> Self {
        Self {
            size: self.size.max(other.size),
            bases: self.bases.max(other.bases),
            largest: self.largest.max(other.largest),
            deltas: self.deltas.max(other.deltas),
        }
    }
}

/// The packs of an object store.
#[derive(Debug)]
pub(crate) struct Packs {
    folders: Vec<PathBuf>,
    state: RefCell<State>,
}

#[derive(Debug)]
struct State {
    packs: Vec<Pack>,
    /// When the folders were changed last, as they were listed, and when that was.
    listed: Option<(Vec<Option<SystemTime>>, SystemTime)>,
    /// The number of the next pack.
    next: u32,
    /// Costs by number of the pack and place in it.
    known: Remembered<(u32, u64), Cost>,
}

#[derive(Debug)]
struct Pack {
    number: u32,
    path: PathBuf,
    index: Index,
}

#[derive(Debug)]
struct Index {
    bytes: Bytes,
    /// How many ids begin with a byte up to this one.
    counts: Vec<u32>,
    is_second_version: bool,
}

#[derive(Debug)]
enum Bytes {
    Memory(Vec<u8>),
    File(File, u64),
}

impl Packs {
    /// The packs in these folders, each the `objects` of a store.
    pub(crate) fn new(folders: &[PathBuf]) -> Self {
        let state = State { packs: Vec::new(), listed: None, next: 0, known: Remembered::new(Part::Costs.bytes() / 3) };
        Self { folders: folders.iter().map(|folder| folder.join("pack")).collect(), state: RefCell::new(state) }
    }

    /// Packs have been written just now.
    pub(crate) fn forget(&self) {
        self.state.borrow_mut().listed = None;
    }

    /// What reading an object costs; none where no pack has it. Where several have it, the most that it may cost.
    ///
    /// # Errors
    /// What is wrong with a pack that has it.
    pub(crate) fn cost(&self, id: Oid) -> io::Result<Option<Cost>> {
        let mut state = self.state.borrow_mut();
        if let Some(cost) = state.cost(id)? {
            return Ok(Some(cost));
        }
        // Somebody may have written or repacked since.
        let modified: Vec<_> = self.folders.iter().map(|folder| modified(folder)).collect();
        if let Some((then, at)) = &state.listed {
            // Of a change just before it was listed the time does not tell whether it came before or after.
            let settled = |time: &Option<SystemTime>| time.is_none_or(|time| time + UNCERTAIN < *at);
            let is_new = at.elapsed().is_ok_and(|age| age < SOONEST);
            if *then == modified && (is_new || then.iter().all(settled)) {
                return Ok(None);
            }
        }
        state.list(&self.folders);
        state.listed = Some((modified, SystemTime::now()));
        state.cost(id)
    }
}

impl Packs {
    /// The first bytes of an object that is stored whole, at most `limit`; none where it is a delta, or in no pack.
    ///
    /// # Errors
    /// When it does not inflate.
    pub(crate) fn beginning(&self, id: Oid, limit: u64) -> io::Result<Option<Vec<u8>>> {
        for pack in &self.state.borrow().packs {
            let Some(offset) = pack.index.find(id.as_bytes())? else { continue };
            let file = disk::open(&pack.path)?;
            let header = Header::read(&file, offset)?;
            if matches!(header.kind, OFFSET_DELTA | REFERENCE_DELTA) {
                continue;
            }
            let mut file = file;
            file.seek(io::SeekFrom::Start(header.at))?;
            let mut content = Vec::new();
            ZlibDecoder::new(file).take(limit).read_to_end(&mut content)?;
            return Ok(Some(content));
        }
        Ok(None)
    }
}

fn modified(folder: &Path) -> Option<SystemTime> {
    std::fs::metadata(folder).and_then(|metadata| metadata.modified()).ok()
}

impl State {
    fn list(&mut self, folders: &[PathBuf]) {
        self.packs.clear();
        for entry in folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten() {
            let path = entry.path();
            if path.extension().is_none_or(|extension| extension != "idx") {
                continue;
            }
            // What cannot be opened holds nothing for us: its objects are missing then, and said to be.
            if let Ok(index) = Index::open(&path) {
                self.packs.push(Pack { number: self.next, path: path.with_extension("pack"), index });
                self.next = self.next.wrapping_add(1);
            }
        }
    }

    fn cost(&mut self, id: Oid) -> io::Result<Option<Cost>> {
        let mut found = None;
        for pack in &self.packs {
            if let Some(offset) = pack.index.find(id.as_bytes())? {
                match pack.cost(offset, &mut self.known) {
                    Ok(cost) => found = Some(found.map_or(cost, |other: Cost| other.or(cost))),
                    // It was repacked: another one has it.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(found)
    }
}

impl Pack {
    /// Follows the chain of an entry down to what is stored whole, or known.
    fn cost(&self, offset: u64, known: &mut Remembered<(u32, u64), Cost>) -> io::Result<Cost> {
        if let Some(cost) = known.get(&(self.number, offset)) {
            return Ok(cost);
        }
        let file = disk::open(&self.path)?;
        let mut chain = Vec::new();
        let mut next = offset;
        let mut cost = loop {
            if let Some(cost) = known.get(&(self.number, next)) {
                break cost;
            }
            let header = Header::read(&file, next)?;
            let Some(base) = header.base(next, |id| self.index.find(id))? else {
                let cost = Cost::whole(header.size);
                known.insert((self.number, next), cost, 128);
                break cost;
            };
            chain.push((next, header.size, header.result_size(&file)?));
            if chain.len() > LONGEST_CHAIN as usize {
                return Err(invalid(format!("it lies on more than {LONGEST_CHAIN} deltas")));
            }
            next = base;
        };
        for (offset, delta, size) in chain.into_iter().rev() {
            cost = Cost {
                size,
                bases: cost.bases.saturating_add(cost.size).saturating_add(delta),
                largest: cost.largest.max(cost.size).max(delta),
                deltas: cost.deltas + 1,
            };
            if cost.deltas > LONGEST_CHAIN {
                return Err(invalid(format!("it lies on more than {LONGEST_CHAIN} deltas")));
            }
            known.insert((self.number, offset), cost, 128);
        }
        Ok(cost)
    }
}

/// The header of an entry in a pack.
struct Header {
    kind: u8,
    /// Bytes of what is packed: of the object, or of the delta.
    size: u64,
    /// What follows the header.
    rest: Vec<u8>,
    /// Where that lies in the pack.
    at: u64,
}

const OFFSET_DELTA: u8 = 6;
const REFERENCE_DELTA: u8 = 7;

impl Header {
    fn read(file: &File, offset: u64) -> io::Result<Self> {
        let mut bytes = read_up_to(file, offset, 160)?.into_iter();
        let mut at = offset;
        let mut byte = || {
            at += 1;
            bytes.next().ok_or_else(|| invalid("it is cut short"))
        };
        let first = byte()?;
        let (kind, mut size, mut shift, mut more) = ((first >> 4) & 7, u64::from(first & 15), 4_u32, first & 0x80 != 0);
        while more {
            let next = byte()?;
            let part = u64::from(next & 0x7f);
            size |= part
                .checked_shl(shift)
                .filter(|it| it >> shift == part)
                .ok_or_else(|| invalid("its size is not valid"))?;
            (shift, more) = (shift + 7, next & 0x80 != 0);
        }
        if !matches!(kind, 1..=4 | OFFSET_DELTA | REFERENCE_DELTA) {
            return Err(invalid("its kind is unknown"));
        }
        Ok(Self { kind, size, at, rest: bytes.collect() })
    }

    /// Where the base of a delta lies; none for what is no delta.
    fn base(&self, offset: u64, find: impl Fn(&[u8]) -> io::Result<Option<u64>>) -> io::Result<Option<u64>> {
        match self.kind {
            OFFSET_DELTA => {
                let (back, _) = self.offset_of_base()?;
                let base = offset.checked_sub(back).filter(|base| *base != offset && *base >= 12);
                base.map(Some).ok_or_else(|| invalid("the base of its delta is not in the pack"))
            }
            REFERENCE_DELTA => {
                let id = self.rest.get(..20).ok_or_else(|| invalid("it is cut short"))?;
                find(id)?.map(Some).ok_or_else(|| invalid("the base of its delta is not in the pack"))
            }
            _ => Ok(None),
        }
    }

    /// How far back the base of an offset delta lies, and how many bytes say so.
    fn offset_of_base(&self) -> io::Result<(u64, usize)> {
        let mut back = 0_u64;
        for (position, byte) in self.rest.iter().take(10).enumerate() {
            if position > 0 {
                back = back.checked_add(1).ok_or_else(|| invalid("the offset of its base is not valid"))?;
            }
            let shifted = back.checked_mul(128).ok_or_else(|| invalid("the offset of its base is not valid"))?;
            back = shifted | u64::from(byte & 0x7f);
            if byte & 0x80 == 0 {
                return Ok((back, position + 1));
            }
        }
        Err(invalid("the offset of its base is not valid"))
    }

    /// How many bytes a delta makes: the second number that it begins with.
    fn result_size(&self, file: &File) -> io::Result<u64> {
        let skip = match self.kind {
            OFFSET_DELTA => self.offset_of_base()?.1,
            _ => 20,
        };
        let mut packed = self.rest.get(skip..).unwrap_or_default().to_vec();
        let mut at = self.at + self.rest.len() as u64;
        let mut inflate = Decompress::new(true);
        let mut begin = [0_u8; 20];
        let wanted = usize::try_from(self.size.min(20)).unwrap_or(20);
        let failed = |_| invalid("its delta does not inflate");
        for _ in 0..8 {
            let (read, made) = (inflate.total_in() as usize, inflate.total_out() as usize);
            let (from, to) = (packed.get(read..).unwrap_or_default(), begin.get_mut(made..wanted).unwrap_or_default());
            if to.is_empty() {
                break;
            }
            inflate.decompress(from, to, FlushDecompress::None).map_err(failed)?;
            if (inflate.total_out() as usize) < wanted {
                let more = read_up_to(file, at, 512)?;
                at += more.len() as u64;
                packed.extend(more);
            }
        }
        let made = begin.get(..inflate.total_out() as usize).unwrap_or_default();
        let (_, rest) = number(made).ok_or_else(|| invalid("its delta is cut short"))?;
        number(rest).map(|(size, _)| size).ok_or_else(|| invalid("its delta is cut short"))
    }
}

/// A number as deltas have it: seven bits a byte, the lowest first.
fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0_u64;
    for (position, byte) in bytes.iter().take(10).enumerate() {
        let (part, shift) = (u64::from(byte & 0x7f), 7 * position as u32);
        value |= part.checked_shl(shift).filter(|it| it >> shift == part)?;
        if byte & 0x80 == 0 {
            return Some((value, bytes.get(position + 1..)?));
        }
    }
    None
}

impl Index {
    fn open(path: &Path) -> io::Result<Self> {
        let file = disk::open(path)?;
        let length = file.metadata()?.len();
        let bytes = if length <= SMALL_INDEX {
            Bytes::Memory(disk::read(path, SMALL_INDEX)?)
        } else {
            Bytes::File(file, length)
        };
        let is_second_version = bytes.at(0, 4)? == b"\xfftOc";
        let table = bytes.at(if is_second_version { 8 } else { 0 }, 1024)?;
        let counts = table.chunks_exact(4).map(big_endian).collect();
        Ok(Self { bytes, counts, is_second_version })
    }

    fn objects(&self) -> u64 {
        u64::from(self.counts.last().copied().unwrap_or_default())
    }

    /// Where ids begin, how far apart they are, and where in its part each is.
    fn layout(&self) -> (u64, u64, u64) {
        if self.is_second_version { (8 + 1024, 20, 0) } else { (1024, 24, 4) }
    }

    /// Where an object lies in the pack; none where it is not there.
    fn find(&self, id: &[u8]) -> io::Result<Option<u64>> {
        let first = usize::from(id.first().copied().unwrap_or_default());
        let count = |at: Option<usize>| at.and_then(|at| self.counts.get(at)).map_or(0, |count| u64::from(*count));
        let (mut low, mut high) = (count(first.checked_sub(1)), count(Some(first)));
        let (start, width, inside) = self.layout();
        while high.saturating_sub(low) > BUCKET {
            let middle = low + (high - low) / 2;
            if self.bytes.at(start + middle * width + inside, 20)?.as_slice() <= id {
                low = middle;
            } else {
                high = middle;
            }
        }
        let Some(ids) = high.checked_sub(low).filter(|ids| *ids > 0) else { return Ok(None) };
        let bucket = self.bytes.at(start + low * width, ids * width)?;
        let is_it = |entry: &[u8]| entry.get(inside as usize..inside as usize + 20) == Some(id);
        match bucket.chunks_exact(width as usize).position(is_it) {
            Some(at) => self.offset(low + at as u64).map(Some),
            None => Ok(None),
        }
    }

    fn offset(&self, at: u64) -> io::Result<u64> {
        if !self.is_second_version {
            return Ok(u64::from(big_endian(&self.bytes.at(1024 + at * 24, 4)?)));
        }
        let objects = self.objects();
        let small = big_endian(&self.bytes.at(8 + 1024 + objects * 24 + at * 4, 4)?);
        if small & 0x8000_0000 == 0 {
            return Ok(u64::from(small));
        }
        let large = self.bytes.at(8 + 1024 + objects * 28 + u64::from(small & 0x7fff_ffff) * 8, 8)?;
        Ok(large.iter().fold(0, |value, byte| (value << 8) | u64::from(*byte)))
    }
}

impl Bytes {
    fn at(&self, offset: u64, length: u64) -> io::Result<Vec<u8>> {
        let cut = || invalid("the index of its pack is cut short");
        match self {
            Self::Memory(bytes) => {
                let (start, length) =
                    (usize::try_from(offset).unwrap_or(usize::MAX), usize::try_from(length).unwrap_or(usize::MAX));
                bytes.get(start..start.saturating_add(length)).map(<[u8]>::to_vec).ok_or_else(cut)
            }
            Self::File(file, size) => {
                if offset.checked_add(length).is_none_or(|end| end > *size) {
                    return Err(cut());
                }
                let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
                file.read_exact_at(&mut bytes, offset)?;
                Ok(bytes)
            }
        }
    }
}

fn big_endian(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |value, byte| (value << 8) | u32::from(*byte))
}

fn read_up_to(file: &File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset.saturating_add(filled as u64)) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

fn invalid(message: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.into())
}
