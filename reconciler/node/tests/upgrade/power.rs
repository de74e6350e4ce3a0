//! A disk whose power goes at a given operation: what was not synced is lost then, or not, as on a real one.

use std::cell::{Cell, RefCell};
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use stepgate_node::files::file_system::{Disk, FileSystem};

/// What undoes a change of a folder that was not synced.
type Undo = Box<dyn FnOnce()>;

/// Fails at operation `end` and ever after.
pub struct Power {
    /// Bytes that are free, if it is not as the disk says.
    pub free: Option<u64>,
    end: usize,
    loses_names: bool,
    done: Cell<usize>,
    unsynced: RefCell<Vec<PathBuf>>,
    names: RefCell<Vec<(PathBuf, Undo)>>,
}

impl Power {
    /// `loses_names`: renames in folders that were not synced are lost too.
    pub fn until(end: usize, loses_names: bool) -> Self {
        Self {
            free: None,
            end,
            loses_names,
            done: Cell::default(),
            unsynced: RefCell::default(),
            names: RefCell::default(),
        }
    }

    /// Operations that were asked for.
    pub fn operations(&self) -> usize {
        self.done.get()
    }

    /// The machine is off: what was not on the disk is gone.
    pub fn cut(self) {
        if self.loses_names {
            for (_, undo) in self.names.into_inner().into_iter().rev() {
                undo();
            }
        }
        for path in self.unsynced.into_inner() {
            if path.exists() {
                fs::write(path, "").unwrap();
            }
        }
    }

    fn operation(&self) -> io::Result<()> {
        self.done.set(self.done.get() + 1);
        if self.done.get() > self.end { Err(io::Error::other("the power is off")) } else { Ok(()) }
    }

    fn later(&self, path: &Path, undo: impl FnOnce() + 'static) {
        self.names.borrow_mut().push((path.parent().unwrap().to_owned(), Box::new(undo)));
    }
}

impl FileSystem for Power {
    fn make_directory(&self, path: &Path) -> io::Result<()> {
        self.operation()?;
        Disk.make_directory(path)
    }

    fn write(&self, path: &Path, content: &mut dyn Read, mode: u32) -> io::Result<()> {
        if let Err(error) = self.operation() {
            // The first half of it was written, if this is the operation in which the power went.
            if self.done.get() == self.end + 1 {
                let mut all = Vec::new();
                content.read_to_end(&mut all)?;
                fs::write(path, &all[..all.len() / 2])?;
                self.unsynced.borrow_mut().push(path.to_owned());
            }
            return Err(error);
        }
        self.unsynced.borrow_mut().push(path.to_owned());
        Disk.write(path, content, mode)
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        self.operation()?;
        self.unsynced.borrow_mut().retain(|unsynced| unsynced != path);
        Disk.sync(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.operation()?;
        self.names.borrow_mut().retain(|(folder, _)| folder != path);
        Disk.sync_directory(path)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.operation()?;
        Disk.link(from, to)?;
        let name = to.to_owned();
        self.later(to, move || drop(fs::remove_file(name)));
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.operation()?;
        let old = fs::read(to).ok().map(|content| (content, fs::metadata(to).unwrap().permissions().mode()));
        Disk.rename(from, to)?;
        for unsynced in self.unsynced.borrow_mut().iter_mut().filter(|unsynced| *unsynced == from) {
            to.clone_into(unsynced);
        }
        let name = to.to_owned();
        self.later(to, move || {
            // A new file, as the old name led to another one.
            drop(fs::remove_file(&name));
            if let Some((content, mode)) = old {
                fs::write(&name, content).unwrap();
                fs::set_permissions(&name, fs::Permissions::from_mode(mode)).unwrap();
            }
        });
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.operation()?;
        Disk.remove(path)
    }

    fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.operation()?;
        Disk.set_mode(path, mode)
    }

    fn free(&self, folder: &Path) -> io::Result<u64> {
        self.free.map_or_else(|| Disk.free(folder), Ok)
    }
}
