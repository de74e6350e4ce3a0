//! For which machines a program is made, by the header of its file.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Processor architectures, in the words of container images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Architecture {
    /// `x86_64`.
    Amd64,
    /// `aarch64`.
    Arm64,
}

impl Architecture {
    /// In the words of container images.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// Of the machine that this program runs on.
    ///
    /// # Errors
    /// When it is neither of both.
    pub fn of_this_machine() -> Result<Self, String> {
        match std::env::consts::ARCH {
            "x86_64" => Ok(Self::Amd64),
            "aarch64" => Ok(Self::Arm64),
            other => Err(format!("nodes of architecture {other} are not upgraded in place")),
        }
    }

    fn elf_machine(self) -> [u8; 2] {
        match self {
            Self::Amd64 => 62_u16.to_le_bytes(),
            Self::Arm64 => 183_u16.to_le_bytes(),
        }
    }
}

/// Why the file at `place` cannot be run on `wanted`; none when it can. Scripts can run everywhere.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn why_not_executable(place: &Path, wanted: Architecture) -> io::Result<Option<String>> {
    let mut start = Vec::new();
    File::open(place)?.take(20).read_to_end(&mut start)?;
    if start.starts_with(b"#!") {
        return Ok(None);
    }
    let (class, order, machine) = (start.get(4), start.get(5), start.get(18..20));
    Ok(if !start.starts_with(b"\x7fELF") || machine.is_none() {
        Some("is executable, and neither a program nor a script".to_owned())
    } else if class != Some(&2) || order != Some(&1) || machine != Some(&wanted.elf_machine()) {
        Some(format!("is not a program for {}", wanted.as_str()))
    } else {
        None
    })
}
