//! SHA-256 digests, as images, archives and `bundles.lock` carry them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// A SHA-256 digest.
///
/// Bundles write it in two ways: `sha256:` and 64 hexadecimal digits on images, 64 bare digits on archives. Both mean
/// the same value; [`fmt::Display`] always writes the first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// Why a text is no [`Digest`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no SHA-256 digest: expected `sha256:` and 64 hexadecimal digits, or the digits alone")]
pub struct DigestError {
    text: String,
}

impl Digest {
    /// The digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The 32 bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The 64 hexadecimal digits, lower case, without `sha256:`.
    #[must_use]
    pub fn hex(&self) -> String {
        self.0.iter().fold(String::with_capacity(64), |mut hex, byte| {
            for nibble in [byte >> 4, byte & 15] {
                hex.push(char::from_digit(u32::from(nibble), 16).unwrap_or('0'));
            }
            hex
        })
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || DigestError { text: text.chars().take(100).collect() };
        let hex = text.strip_prefix("sha256:").unwrap_or(text);
        let mut bytes = [0; 32];
        let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
        if pairs.len() != bytes.len() || !rest.is_empty() {
            return Err(error());
        }
        for (byte, pair) in bytes.iter_mut().zip(pairs) {
            let [high, low] = pair.map(|digit| char::from(digit).to_digit(16));
            let value = high.zip(low).map(|(high, low)| high * 16 + low).ok_or_else(error)?;
            *byte = u8::try_from(value).map_err(|_| error())?;
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Digest({self})")
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn both_spellings_are_one_value() {
        let bare: Digest = EMPTY.parse().unwrap();
        let prefixed: Digest = format!("sha256:{EMPTY}").parse().unwrap();
        let upper: Digest = EMPTY.to_uppercase().parse().unwrap();
        assert_eq!(bare, prefixed);
        assert_eq!(bare, upper);
        assert_eq!(bare, Digest::of(b""));
        assert_eq!(bare.to_string(), format!("sha256:{EMPTY}"));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in
            ["", "sha256:", "<placeholder>", "sha512:00", &EMPTY[1..], &format!("{EMPTY}0"), &EMPTY.replace('e', "g")]
        {
            assert!(text.parse::<Digest>().is_err(), "{text}");
        }
    }
}
