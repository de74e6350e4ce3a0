//! Recordings on disk: plain or xz-compressed lines, one sample each.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use liblzma::bufread::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};

use super::sample::Sample;
use host::disk;

/// First bytes of every xz stream (the xz file format, 2.1.1.1).
const XZ_MAGIC: [u8; 6] = [0xfd, b'7', b'z', b'X', b'Z', 0x00];

/// The longest line that is read. A sample of a management cluster with 1,000 machines has about 1.5 MB.
const LONGEST_LINE: u64 = 64 << 20;

/// Memory that the decoder may take; xz's strongest preset needs 65 MiB.
const DECODER_MEMORY: u64 = 128 << 20;

/// Why a recording could not be read. Lines are counted in the decompressed text, from 1.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file is not there or may not be read.
    #[error("could not open recording {}: {source}; name a .jsonl or .jsonl.xz file, or a folder of dumped objects", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Reading stopped part way: a bad disk, or compressed data that does not decompress.
    #[error(
        "could not read recording {}:{line}: {source}; the compressed file is damaged or cut off, copy it again or test it with `xz -t`",
        path.display()
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// The line that was being read.
        line: usize,
        /// What the operating system or the decoder said.
        source: io::Error,
    },
    /// The last line ends in the middle of a JSON value: the recorder was ended while it wrote.
    #[error(
        "recording {}:{line}:{column} is cut off in the middle of a sample; delete line {line} and replay again",
        path.display()
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// The line that is cut off.
        line: usize,
        /// Where the text ends.
        column: usize,
    },
    /// A line is not a valid sample.
    #[error(
        "recording {}:{line}:{column} is not a valid sample: {message}; expected one JSON object a line with `t` in seconds and the lists `kcp`, `md`, `cl`, `m`",
        path.display()
    )]
    NotASample {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// The column, in bytes from 1.
        column: usize,
        /// What the parser said.
        message: String,
    },
    /// A line is longer than any sample.
    #[error("recording {}:{line} is longer than {limit} bytes; expected one sample a line", path.display())]
    LineTooLong {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// The limit in bytes.
        limit: u64,
    },
    /// The file holds no sample at all.
    #[error("recording {} holds no sample; expected one JSON object a line", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// The samples of one recording, read line by line so that a long recording takes the memory of one sample.
///
/// After the first error there are no further samples: what follows a damaged line cannot be trusted.
pub struct Samples {
    path: PathBuf,
    lines: Box<dyn BufRead>,
    line: usize,
    samples: usize,
    finished: bool,
}

impl Samples {
    /// Opens the recording at `path`. Compression is told by the first bytes, not by the name.
    ///
    /// # Errors
    /// [`RecordingError::Open`] when the file cannot be opened, [`RecordingError::Read`] when its first bytes cannot be read.
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        let file = disk::open(path).map_err(|source| RecordingError::Open { path: path.to_owned(), source })?;
        let lines =
            decompressed(file).map_err(|source| RecordingError::Read { path: path.to_owned(), line: 1, source })?;
        Ok(Self { path: path.to_owned(), lines, line: 0, samples: 0, finished: false })
    }

    fn read_line(&mut self) -> Result<Option<Vec<u8>>, RecordingError> {
        self.line += 1;
        let mut text = Vec::new();
        (&mut self.lines).take(LONGEST_LINE).read_until(b'\n', &mut text).map_err(|source| RecordingError::Read {
            path: self.path.clone(),
            line: self.line,
            source,
        })?;
        if text.is_empty() {
            return Ok(None);
        }
        if text.len() as u64 == LONGEST_LINE {
            return Err(RecordingError::LineTooLong { path: self.path.clone(), line: self.line, limit: LONGEST_LINE });
        }
        Ok(Some(text))
    }

    fn read_sample(&mut self) -> Result<Option<Sample>, RecordingError> {
        while let Some(text) = self.read_line()? {
            if text.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let sample = serde_json::from_slice(&text).map_err(|error| self.no_sample(&error))?;
            self.samples += 1;
            return Ok(Some(sample));
        }
        if self.samples == 0 {
            return Err(RecordingError::Empty { path: self.path.clone() });
        }
        Ok(None)
    }

    fn no_sample(&self, error: &serde_json::Error) -> RecordingError {
        let (path, line, column) = (self.path.clone(), self.line, error.column());
        if error.is_eof() {
            return RecordingError::Truncated { path, line, column };
        }
        // The parser appends its own position, which counts lines within this one line.
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or(&message).to_owned();
        RecordingError::NotASample { path, line, column, message }
    }
}

impl Iterator for Samples {
    type Item = Result<Sample, RecordingError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.finished {
            return None;
        }
        let next = self.read_sample().transpose();
        self.finished = !matches!(next, Some(Ok(_)));
        next
    }
}

fn decompressed(file: File) -> io::Result<Box<dyn BufRead>> {
    let mut plain = BufReader::new(file);
    if !plain.fill_buf()?.starts_with(&XZ_MAGIC) {
        return Ok(Box::new(plain));
    }
    let stream = Stream::new_stream_decoder(DECODER_MEMORY, CONCATENATED).map_err(io::Error::other)?;
    Ok(Box::new(BufReader::new(XzDecoder::new_stream(plain, stream))))
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
