//! Programs by the header of their file (ELF, 64 bits, little-endian).

use super::Architecture;

const MAGIC: &[u8] = b"\x7fELF";

/// The header that names the program that loads libraries.
const INTERPRETER: u32 = 3;

/// Why `content` does not run on nodes of an architecture; none when it does.
#[must_use]
pub fn why_not_program(content: &[u8], architecture: Architecture) -> Option<String> {
    if content.starts_with(b"#!") {
        return None;
    }
    if !content.starts_with(MAGIC) {
        return Some(String::from("is neither a program nor a script"));
    }
    let machine = number(content, 18, 2);
    let wanted = match architecture {
        Architecture::Amd64 => 62,
        Architecture::Arm64 => 183,
    };
    if content.get(4) != Some(&2) || content.get(5) != Some(&1) {
        return Some(String::from("is not a program of 64 bits"));
    }
    match machine {
        Some(machine) if machine == wanted => None,
        Some(62) => Some(format!("is for amd64, and {architecture} is wanted")),
        Some(183) => Some(format!("is for arm64, and {architecture} is wanted")),
        _ => Some(format!("is not a program for {architecture}")),
    }
}

/// Why a program needs more than itself: an image that has nothing else cannot start it.
#[must_use]
pub fn why_not_static(content: &[u8]) -> Option<String> {
    let (Some(offset), Some(size), Some(count)) =
        (number(content, 32, 8), number(content, 54, 2), number(content, 56, 2))
    else {
        return Some(String::from("is not a whole program"));
    };
    for index in 0..count {
        let place = index.checked_mul(size).and_then(|place| place.checked_add(offset));
        let kind = place.and_then(|place| usize::try_from(place).ok()).and_then(|place| number(content, place, 4));
        match kind {
            None => return Some(String::from("is not a whole program")),
            Some(kind) if kind == u64::from(INTERPRETER) => {
                return Some(String::from("needs libraries that the image does not have: build it statically"));
            }
            Some(_) => {}
        }
    }
    None
}

fn number(content: &[u8], place: usize, length: usize) -> Option<u64> {
    let bytes = content.get(place..place.checked_add(length)?)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}
