//! A case in the form that the Go program reads, and both answers to it.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use kustomize_rs::flux::{self, Kustomization, Missing, Options, SourceKind, Sources, Template};
use kustomize_rs::{DiskFileSystem, FileSystem};
use serde_json::{Value, json};
use yaml::{Limits, parse};

/// One line for the Go program.
pub type Case = Value;

/// What came out: the generated kustomization and the output, or that it was refused.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    Built {
        manifest: String,
        output: String,
    },
    /// With the message, which is not compared.
    Refused(String),
}

impl Answer {
    /// Reads an answer of the Go program. A panic of it is no answer.
    pub fn read(answer: &Value) -> Option<Self> {
        let text = |field: &str| answer[field].as_str().unwrap_or_default().to_owned();
        match text("error") {
            error if error.starts_with("panic: ") => None,
            error if error.is_empty() => Some(Self::Built { manifest: text("manifest"), output: text("output") }),
            error => Some(Self::Refused(error)),
        }
    }

    /// Says whether both built the same, or both refused. A character cut in two is refused here at once, and there
    /// when the text is read again.
    pub fn agrees(&self, flux: &Self) -> bool {
        match (self, flux) {
            (Self::Refused(_), Self::Refused(_)) => true,
            (Self::Refused(_), Self::Built { manifest, output }) => {
                manifest.is_empty() && output.contains(char::REPLACEMENT_CHARACTER)
            }
            _ => self == flux,
        }
    }
}

/// The program to compare with, if there is one: it takes minutes to build.
pub fn program() -> Option<std::ffi::OsString> {
    let program = std::env::var_os("STEPGATE_FLUX_KUSTOMIZE").filter(|path| !path.is_empty());
    if program.is_none() {
        skip::on_demand("on demand: tests/servers/build target/servers flux-kustomize");
    }
    program
}

/// Asks the Go program about all cases.
pub fn ask(program: &std::ffi::OsStr, cases: &[Case]) -> Vec<Value> {
    let mut command = Command::new(program);
    // Deprecated fields are reported there.
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("the program starts");
    let mut input = child.stdin.take().unwrap();
    let lines: String = cases.iter().map(|case| format!("{case}\n")).collect();
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "the program failed");
    let answers: Vec<Value> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), cases.len());
    answers
}

/// Our answer.
pub fn own(case: &Case) -> Answer {
    if let Some(template) = case["template"].as_str() { substitute(case, template) } else { build(case) }
}

fn texts(value: &Value) -> BTreeMap<String, String> {
    let pairs = value.as_object().into_iter().flatten();
    pairs.map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned())).collect()
}

fn missing(case: &Case) -> Missing {
    if case["strict"] == json!(true) { Missing::IsAnError } else { Missing::IsEmpty }
}

fn substitute(case: &Case, template: &str) -> Answer {
    let variables = texts(&case["variables"]);
    let value_of = |name: &str| variables.get(name).map(String::as_str);
    match Template::parse(template).and_then(|template| template.expand(&value_of, missing(case))) {
        Ok(output) => Answer::Built { manifest: String::new(), output },
        Err(error) => Answer::Refused(error.to_string()),
    }
}

fn build(case: &Case) -> Answer {
    let directory = lay(&texts(&case["files"]), &texts(&case["links"]));
    let files = DiskFileSystem::new(directory.path()).unwrap();
    let mut sources = Sources::default();
    for (name, values) in case["sources"].as_object().into_iter().flatten() {
        let (kind, name) = name.split_once('/').unwrap();
        let kind = if kind == "Secret" { SourceKind::Secret } else { SourceKind::ConfigMap };
        sources.insert(kind, name, texts(values));
    }
    let options = Options { missing: missing(case), sources, ..Options::default() };
    match build_text(&files, &case["kustomization"].to_string(), &options) {
        Ok((manifest, output)) => Answer::Built { manifest, output },
        Err(error) => Answer::Refused(error.to_string()),
    }
}

/// Builds for an object given as YAML or JSON: the kustomization that is generated, and the output.
pub fn build_text(
    files: &dyn FileSystem,
    object: &str,
    options: &Options,
) -> Result<(String, String), kustomize_rs::BuildError> {
    let document = parse(object, &Limits::default()).unwrap().into_iter().next().unwrap();
    let object = Kustomization::from_node(&document.root, "kustomization-object.yaml")?;
    let manifest = flux::generate(files, &object, &options.build)?.to_yaml();
    Ok((manifest, flux::build(files, &object, options)?.to_yaml()))
}

/// Writes a source to a directory of its own.
pub fn lay(files: &BTreeMap<String, String>, links: &BTreeMap<String, String>) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let place = |path: &String| {
        let path = directory.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    };
    for (path, content) in files {
        std::fs::write(place(path), content).unwrap();
    }
    for (path, target) in links {
        std::os::unix::fs::symlink(Path::new(target), place(path)).unwrap();
    }
    directory
}

/// Compares all cases with the Go program and fails on the first difference; `what` is for the line that is printed.
pub fn compare(program: &std::ffi::OsStr, cases: &[Case], what: &str) {
    let (mut built, mut refused, mut panicked, mut different) = (0, 0, 0, Vec::new());
    for (case, answer) in cases.iter().zip(ask(program, cases)) {
        let Some(theirs) = Answer::read(&answer) else {
            panicked += 1;
            continue;
        };
        match &theirs {
            Answer::Built { .. } => built += 1,
            Answer::Refused(_) => refused += 1,
        }
        let ours = own(case);
        if !ours.agrees(&theirs) {
            different.push(format!("case {case}\nflux {theirs:#?}\nours {ours:#?}"));
        }
    }
    println!(
        "{what}: {} compared, {built} built, {refused} refused by both, {panicked} where Flux panics, {} different",
        cases.len(),
        different.len()
    );
    assert!(
        different.is_empty(),
        "{} different, the first:\n{}",
        different.len(),
        different[..different.len().min(12)].join("\n")
    );
}
