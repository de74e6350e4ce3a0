//! What a program did to files, as `strace` recorded it.

use std::collections::HashMap;
use std::fmt;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

/// Descriptors with their paths, every text in hexadecimal and whole, and every call that changes a file or says which one is meant.
pub const OPTIONS: [&str; 6] = [
    "-y",
    "-xx",
    "-s",
    "100000000",
    "-e",
    "trace=open,openat,openat2,creat,close,dup,dup2,dup3,fcntl,lseek,write,writev,pwrite64,pwritev,pwritev2,ftruncate,\
     truncate,fallocate,copy_file_range,sendfile,splice,rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,\
     unlinkat,rmdir,mkdir,mkdirat,fsync,fdatasync,sync_file_range",
];

/// A number by which a process knows an open file.
pub type Descriptor = i32;

/// One call that succeeded.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    Open {
        path: PathBuf,
        descriptor: Descriptor,
        creates: bool,
        empties: bool,
        appends: bool,
    },
    Duplicate {
        from: Descriptor,
        to: Descriptor,
    },
    Close(Descriptor),
    Seek {
        descriptor: Descriptor,
        to: usize,
    },
    /// At a place of its own, or where the last one ended.
    Write {
        descriptor: Descriptor,
        at: Option<usize>,
        bytes: Vec<u8>,
    },
    Cut {
        descriptor: Descriptor,
        length: usize,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
    },
    Link {
        from: PathBuf,
        to: PathBuf,
    },
    Remove(PathBuf),
    MakeFolder(PathBuf),
    Synchronise(Descriptor),
}

impl fmt::Display for Operation {
    /// In one line, without what was written.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write { descriptor, bytes, .. } => write!(formatter, "{} bytes to {descriptor}", bytes.len()),
            other => write!(formatter, "{other:?}"),
        }
    }
}

/// What was done, in the order in which it ended.
pub fn operations(record: &str) -> Vec<Operation> {
    let mut begun: HashMap<&str, &str> = HashMap::new();
    let mut operations = Vec::new();
    for line in record.lines() {
        let (process, call) = line.split_once(' ').unwrap();
        let call = call.trim_start();
        if let Some(beginning) = call.strip_suffix(" <unfinished ...>") {
            begun.insert(process, beginning);
        } else if call.starts_with("<... ") {
            let (_, rest) = call.split_once(" resumed>").unwrap();
            operations.extend(operation(&format!("{}{rest}", begun.remove(process).unwrap())));
        } else {
            operations.extend(operation(call));
        }
    }
    operations
}

fn operation(call: &str) -> Option<Operation> {
    let (call, result) = call.rsplit_once(" = ")?;
    let result: usize = result.split(['<', ' ']).next()?.parse().ok()?;
    let (name, arguments) = call.trim_end().strip_suffix(')')?.split_once('(')?;
    let arguments: Vec<&str> = arguments.split(", ").collect();
    let number = |place: usize| arguments[place].parse::<usize>().unwrap();
    let path = |place: usize| PathBuf::from(std::ffi::OsString::from_vec(bytes(arguments[place])));
    let path_at = |folder: usize| folder_of(arguments[folder]).join(path(folder + 1));
    let result_descriptor = || Descriptor::try_from(result).unwrap();
    let opened = |path: PathBuf, flags: &str| Operation::Open {
        path,
        descriptor: result_descriptor(),
        creates: flags.contains("O_CREAT"),
        empties: flags.contains("O_TRUNC"),
        appends: flags.contains("O_APPEND"),
    };
    let written = |at| Operation::Write {
        descriptor: descriptor(arguments[0]),
        at,
        bytes: bytes(arguments[1])[..result].to_vec(),
    };
    Some(match name {
        "open" => opened(path(0), arguments[1]),
        "openat" => opened(path_at(0), arguments[2]),
        "close" => Operation::Close(descriptor(arguments[0])),
        "dup" => Operation::Duplicate { from: descriptor(arguments[0]), to: result_descriptor() },
        "fcntl" if arguments[1].starts_with("F_DUPFD") => {
            Operation::Duplicate { from: descriptor(arguments[0]), to: result_descriptor() }
        }
        "fcntl" => return None,
        "lseek" => Operation::Seek { descriptor: descriptor(arguments[0]), to: result },
        "write" => written(None),
        "pwrite64" => written(Some(number(3))),
        "ftruncate" => Operation::Cut { descriptor: descriptor(arguments[0]), length: number(1) },
        "rename" => Operation::Rename { from: path(0), to: path(1) },
        "renameat" | "renameat2" => Operation::Rename { from: path_at(0), to: path_at(2) },
        "link" => Operation::Link { from: path(0), to: path(1) },
        "linkat" => Operation::Link { from: path_at(0), to: path_at(2) },
        "unlink" | "rmdir" => Operation::Remove(path(0)),
        "unlinkat" => Operation::Remove(path_at(0)),
        "mkdir" => Operation::MakeFolder(path(0)),
        "mkdirat" => Operation::MakeFolder(path_at(0)),
        "fsync" | "fdatasync" => Operation::Synchronise(descriptor(arguments[0])),
        _ => panic!("a call that is not understood: {name}"),
    })
}

/// `3<\x2f\x61>`: the number.
fn descriptor(argument: &str) -> Descriptor {
    argument.split('<').next().unwrap().parse().unwrap()
}

/// The same: the path. `AT_FDCWD` has one too.
fn folder_of(argument: &str) -> PathBuf {
    let path = argument.split_once('<').map_or("", |(_, path)| path.trim_end_matches('>'));
    PathBuf::from(std::ffi::OsString::from_vec(bytes(path)))
}

/// `"\x2f\x61"`.
fn bytes(text: &str) -> Vec<u8> {
    let digits = text.trim_matches('"').split("\\x").skip(1);
    digits.map(|digits| u8::from_str_radix(digits, 16).unwrap()).collect()
}

#[test]
fn calls_are_read_as_strace_writes_them() {
    let record = "7 openat(AT_FDCWD<\\x2f>, \"\\x61\", O_WRONLY|O_CREAT|O_CLOEXEC, 0666) = 3<\\x2f\\x61>\n\
                  7 write(3<\\x2f\\x61>, \"\\x62\\x63\", 2 <unfinished ...>\n\
                  8 rename(\"\\x2f\\x61\", \"\\x2f\\x64\") = -1 ENOENT (No such file or directory)\n\
                  7 <... write resumed>)               = 1\n\
                  8 fcntl(3<\\x2f\\x61>, F_GETFD)          = 0x1 (flags FD_CLOEXEC)\n\
                  8 unlinkat(4<\\x2f\\x65>, \"\\x66\", 0)      = 0\n";
    let opened = Operation::Open { path: "/a".into(), descriptor: 3, creates: true, empties: false, appends: false };
    let written = Operation::Write { descriptor: 3, at: None, bytes: b"b".to_vec() };
    assert_eq!(operations(record), [opened, written, Operation::Remove("/e/f".into())]);
}
