//! Loose objects, read by our own code.
//!
//! The library never returns from a loose object that was cut short (libgit2 1.9 asks the inflater for more for ever), and
//! a crash of any git program can leave one. So loose objects are inflated here, against their declared size.
//! Format: `zlib("<kind> <size>\0<content>")`, gitrepository-layout(5).

use std::cell::RefCell;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use flate2::read::ZlibDecoder;
use git2::{ObjectType, Oid};

use host::disk;

/// Longest header: the longest kind, a blank, twenty digits and NUL.
const LONGEST_HEADER: usize = 32;

/// The loose objects of one store.
#[derive(Debug, Default)]
pub(crate) struct LooseObjects {
    folder: PathBuf,
    /// Which of the folders `00` to `ff` are there, and the age of that knowledge.
    folders: RefCell<(Option<SystemTime>, Vec<bool>)>,
}

/// What a loose file holds.
pub(crate) struct LooseObject {
    pub(crate) kind: ObjectType,
    pub(crate) content: Vec<u8>,
}

/// Why a loose file is not read.
pub(crate) enum LooseError {
    /// It declares more bytes than are read.
    TooLarge { size: u64 },
    /// It is not what its name says.
    Corrupt(String),
}

impl LooseObjects {
    /// The loose objects below `objects/`.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, folders: RefCell::new((None, Vec::new())) }
    }

    /// Reads an object, verified against its id; none when it is not loose.
    pub(crate) fn read(&self, id: Oid, limit: u64) -> Option<Result<LooseObject, LooseError>> {
        let file = self.open(id)?;
        Some(read(file, limit).and_then(|object| match Oid::hash_object(object.kind, &object.content) {
            Ok(actual) if actual == id => Ok(object),
            Ok(actual) => Err(LooseError::Corrupt(format!("its content has the id {actual}"))),
            Err(error) => Err(LooseError::Corrupt(error.message().to_owned())),
        }))
    }

    /// The first bytes of an object, at most `limit`, not verified against its id; none when it is not loose.
    pub(crate) fn beginning(&self, id: Oid, limit: u64) -> Option<io::Result<Vec<u8>>> {
        let mut decoder = ZlibDecoder::new(self.open(id)?);
        if header(&mut decoder).is_err() {
            return Some(Err(io::ErrorKind::InvalidData.into()));
        }
        let mut content = Vec::new();
        Some(decoder.take(limit).read_to_end(&mut content).map(|_| content))
    }

    /// The declared size of an object; none when it is not loose.
    pub(crate) fn size(&self, id: Oid) -> Option<Result<u64, LooseError>> {
        let mut decoder = ZlibDecoder::new(self.open(id)?);
        Some(header(&mut decoder).map(|(_, size)| size))
    }

    fn open(&self, id: Oid) -> Option<fs::File> {
        if !self.may_hold(id) {
            return None;
        }
        let name = id.to_string();
        let (folder, file) = name.split_at_checked(2)?;
        disk::open(&self.folder.join(folder).join(file)).ok()
    }

    /// Whether the folder of this id is there. In a repacked repository none is, and no file needs to be tried.
    fn may_hold(&self, id: Oid) -> bool {
        let Ok(mut folders) = self.folders.try_borrow_mut() else { return true };
        let modified = fs::metadata(&self.folder).and_then(|metadata| metadata.modified()).ok();
        if modified.is_none() || folders.0 != modified {
            *folders = (modified, list(&self.folder));
        }
        let first = id.as_bytes().first().copied().unwrap_or_default();
        folders.1.get(usize::from(first)).copied().unwrap_or(true)
    }
}

fn list(folder: &Path) -> Vec<bool> {
    let mut present = vec![false; 256];
    let Ok(entries) = fs::read_dir(folder) else { return vec![true; 256] };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let number = name.to_str().filter(|name| name.len() == 2).and_then(|name| u8::from_str_radix(name, 16).ok());
        if let Some(slot) = number.and_then(|number| present.get_mut(usize::from(number))) {
            *slot = true;
        }
    }
    present
}

fn read(file: fs::File, limit: u64) -> Result<LooseObject, LooseError> {
    let mut decoder = ZlibDecoder::new(file);
    let (kind, size) = header(&mut decoder)?;
    if size > limit {
        return Err(LooseError::TooLarge { size });
    }
    let mut content = Vec::new();
    decoder
        .take(size.saturating_add(1))
        .read_to_end(&mut content)
        .map_err(|error| LooseError::Corrupt(format!("it does not inflate: {error}")))?;
    if u64::try_from(content.len()).is_ok_and(|length| length == size) {
        Ok(LooseObject { kind, content })
    } else {
        Err(LooseError::Corrupt(format!("it declares {size} bytes and holds another number of them")))
    }
}

fn header(decoder: &mut impl Read) -> Result<(ObjectType, u64), LooseError> {
    let malformed = || LooseError::Corrupt("its header is malformed".to_owned());
    let mut text = Vec::new();
    let mut byte = [0_u8];
    for _ in 0..LONGEST_HEADER {
        decoder.read_exact(&mut byte).map_err(|error| LooseError::Corrupt(format!("it does not inflate: {error}")))?;
        if byte == [0] {
            let text = std::str::from_utf8(&text).map_err(|_| malformed())?;
            let (kind, size) = text.split_once(' ').ok_or_else(malformed)?;
            let kind = ObjectType::from_str(kind).ok_or_else(malformed)?;
            return Ok((kind, size.parse().map_err(|_| malformed())?));
        }
        text.extend_from_slice(&byte);
    }
    Err(malformed())
}
