//! What the benchmarks of kustomize builds share.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, bail};
use kustomize_rs::{
    Cache, DiskFileSystem, LoadRestrictor, MemoryFileSystem, Options, Outside, SnapshotFileSystem, build, build_cached,
};

use crate::corpus;
use crate::measure::quoted;

/// The hidden verb by which this program builds every cluster of a folder in a process of its own.
pub const FLEET_VERB: &str = "render-fleet";
/// The hidden verb by which it builds one directory and says what memory that took.
pub const ONE_VERB: &str = "render-one";

/// The options of kustomize's command line, with all files of the tree allowed.
pub fn options() -> Options {
    Options { load_restrictor: LoadRestrictor::None, ..Options::unlimited() }
}

/// The directory of a cluster of the corpus.
pub fn cluster(number: usize) -> String {
    format!("clusters/cluster-{number:04}")
}

/// Version 2 of the corpus, in memory and in a folder.
pub fn corpus_files(folder: &Path) -> anyhow::Result<MemoryFileSystem> {
    let files = corpus::files(2);
    for (path, bytes) in &files {
        let path = folder.join(path.as_str());
        fs::create_dir_all(path.parent().context("a folder")?)?;
        fs::write(path, bytes)?;
    }
    Ok(files.into_iter().map(|(path, bytes)| (path.to_string(), bytes)).collect())
}

/// All files below a folder.
pub fn read_folder(folder: &Path) -> anyhow::Result<MemoryFileSystem> {
    let mut files = MemoryFileSystem::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(bytes) = fs::read(&path) {
                files.insert(&path.strip_prefix(folder)?.to_string_lossy(), bytes);
            }
        }
    }
    Ok(files)
}

/// The command of this program for a hidden verb.
pub fn verb(name: &str, arguments: &[&Path]) -> anyhow::Result<String> {
    let program = std::env::current_exe()?;
    let words: Vec<String> = arguments.iter().map(|path| quoted(path)).collect();
    Ok(format!("{} {name} {}", quoted(&program), words.join(" ")))
}

/// `render-fleet ROOT OUT`: every folder of `ROOT/clusters` into a file, on two threads that share a cache
/// and a snapshot of the files.
pub fn fleet(arguments: &[String]) -> anyhow::Result<()> {
    let [root, out] = arguments else { bail!("{FLEET_VERB} ROOT OUT") };
    let files = SnapshotFileSystem::new(DiskFileSystem::new(root)?);
    let mut clusters: Vec<String> = fs::read_dir(Path::new(root).join("clusters"))?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<anyhow::Result<_>>()?;
    clusters.sort();
    let cache = Cache::new(64 << 20);
    let next = AtomicUsize::new(0);
    let work = || -> anyhow::Result<()> {
        while let Some(cluster) = clusters.get(next.fetch_add(1, Ordering::Relaxed)) {
            let resources =
                build_cached(&files, &format!("clusters/{cluster}"), &options(), Outside::default(), &cache)?;
            fs::write(Path::new(out).join(cluster), resources.to_yaml())?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| bail!("a thread panicked")))
    })
}

/// `render-one ROOT DIRECTORY OUT`: builds one directory into a file and prints the peak of its memory in kB.
pub fn one(arguments: &[String]) -> anyhow::Result<()> {
    let [root, directory, out] = arguments else { bail!("{ONE_VERB} ROOT DIRECTORY OUT") };
    let text = build(&DiskFileSystem::new(root)?, directory, &options())?.to_yaml();
    fs::write(out, text)?;
    let status = fs::read_to_string("/proc/self/status").context("read /proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("VmHWM")?;
    crate::report::line(peak.trim().trim_end_matches(" kB"));
    Ok(())
}

/// The largest published cases, unpacked: name, root, directory; none where the data is not here.
pub fn published(scratch: &Path) -> anyhow::Result<Vec<(String, PathBuf, String)>> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let data = manifest.ancestors().map(|folder| folder.join("shared/data/kustomize/cases"));
    let Some(data) = data.into_iter().find(|folder| folder.is_dir()) else { return Ok(Vec::new()) };
    let index: serde_json::Value = serde_json::from_slice(&fs::read(data.join("index.json"))?)?;
    let mut cases = Vec::new();
    for case in index.as_array().context("a list of cases")? {
        let text = |key: &str| case.get(key).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
        let plain = case.get("args").and_then(serde_json::Value::as_array).is_some_and(Vec::is_empty);
        if text("category") != "large" || text("status") != "ok" || !plain {
            continue;
        }
        let archive = data.join(text("path"));
        crate::measure::run(scratch, "tar", &["-xJf", &archive.to_string_lossy()])?;
        let name = archive.file_name().unwrap_or_default().to_string_lossy().replace(".tar.xz", "");
        cases.push((name.clone(), scratch.join(name).join("input"), text("target")));
    }
    Ok(cases)
}
