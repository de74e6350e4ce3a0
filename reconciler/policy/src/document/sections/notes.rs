//! Notes that are read before a version: what a release says of itself that a rollout cannot find out by looking.
//!
//! Stepgate's own notes (`planning`, `release_notes/notes.yaml`) and a team's (`notes` of `stepgate.yaml`) are written alike.

use std::fmt;
use std::str::FromStr;

use domain::{Problem, RepoPath, nearest};
use jiff::civil::Date;
use schemars::JsonSchema;
use yaml::Node;

use crate::document::read::Reader;
use crate::document::schema::every_field_is_optional;

/// Whose versions notes are about: Kubernetes, and the components of a `versionsBundle` as `stepgate plan` names them.
const COMPONENTS: [&str; 16] = [
    "kubernetes",
    "eksa",
    "certManager",
    "clusterAPI",
    "bootstrap",
    "controlPlane",
    "etcdadmBootstrap",
    "etcdadmController",
    "cilium",
    "flux",
    "vSphere",
    "tinkerbell",
    "nutanix",
    "snow",
    "cloudStack",
    "docker",
];

const PROVIDERS: [&str; 6] = ["vSphere", "tinkerbell", "nutanix", "snow", "cloudStack", "docker"];

const NOTE: [&str; 11] = [
    "name",
    "component",
    "from",
    "before",
    "providers",
    "kubernetesBefore",
    "says",
    "remedy",
    "blocking",
    "source",
    "date",
];

/// One to three numbers, as notes name versions: `1.35` is every version from 1.35.0 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NoteVersion([u64; 3]);

/// A text is not a version that notes can name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a valid version; write it as \"1.35\" or \"v0.22.3\", in quotes")]
pub struct NoteVersionError(String);

impl NoteVersion {
    /// The numbers of a component's version, whatever follows them: `v1.18.2+9b355a2`, `v1.30.14-eks-1-30-58`, `1.34`.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        let plain = text.strip_prefix('v').unwrap_or(text);
        let end = plain.find(|sign: char| !sign.is_ascii_digit() && sign != '.').unwrap_or(plain.len());
        plain.get(..end)?.parse().ok()
    }

    /// Major and minor number.
    #[must_use]
    pub fn minor(self) -> (u64, u64) {
        let Self([major, minor, _]) = self;
        (major, minor)
    }
}

impl FromStr for NoteVersion {
    type Err = NoteVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || NoteVersionError(text.to_owned());
        let mut parts = text.strip_prefix('v').unwrap_or(text).split('.');
        let mut numbers = [0; 3];
        for (index, number) in numbers.iter_mut().enumerate() {
            match parts.next() {
                // A single number is a minor of nothing.
                None if index > 1 => break,
                part => *number = part.and_then(|part| part.parse().ok()).ok_or_else(error)?,
            }
        }
        if parts.next().is_some() { Err(error()) } else { Ok(Self(numbers)) }
    }
}

impl fmt::Display for NoteVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self([major, minor, patch]) = self;
        write!(formatter, "{major}.{minor}.{patch}")
    }
}

/// What has to be read, or done, before a component goes to a version.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(rename_all = "camelCase", transform = every_field_is_optional)]
pub struct ReleaseNote {
    /// By what waivers name it: `ReleaseNote/<name>`.
    pub name: String,
    /// The component.
    pub component: String,
    /// The first version that it is about; each new minor where none is named.
    #[schemars(with = "Option<String>")]
    pub from: Option<NoteVersion>,
    /// The first version after it that it is about no more.
    #[schemars(with = "Option<String>")]
    pub before: Option<NoteVersion>,
    /// The providers whose clusters it concerns; all of them where none is named.
    pub providers: Vec<String>,
    /// It concerns clusters alone that run an earlier Kubernetes than this.
    #[schemars(with = "Option<String>")]
    pub kubernetes_before: Option<NoteVersion>,
    /// What is to be known.
    pub says: String,
    /// What is to be done.
    pub remedy: Option<String>,
    /// Whether the rollout waits until a waiver says that it is done.
    pub blocking: bool,
    /// Where it is written.
    pub source: Option<String>,
    /// The day on which it was read there.
    #[schemars(with = "Option<String>", regex(pattern = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"))]
    pub date: Option<Date>,
}

/// The notes of a file that is a list of them.
#[must_use]
pub fn read_notes(path: &RepoPath, bytes: &[u8]) -> (Vec<ReleaseNote>, Vec<Problem>) {
    crate::document::read::read_file(path, bytes, |reader, root| reader.notes(root))
}

impl Reader<'_> {
    pub(in crate::document) fn notes(&mut self, node: &Node) -> Vec<ReleaseNote> {
        if !node.is_null() && node.as_sequence().is_none() {
            self.problem(node.span, "notes must be a list", None);
        }
        let items = node.as_sequence().unwrap_or_default();
        let mut notes: Vec<ReleaseNote> = Vec::new();
        for item in items {
            let Some(note) = self.note(item) else { continue };
            if notes.iter().any(|known| known.name == note.name) {
                let hint = "waivers name a note by its name: give each its own".to_owned();
                self.problem(item.span, format!("notes: {:?} is the name of another note", note.name), Some(hint));
            }
            notes.push(note);
        }
        notes
    }

    fn note(&mut self, node: &Node) -> Option<ReleaseNote> {
        let (mut name, mut component, mut says) = (None, None, None);
        let mut note = ReleaseNote {
            name: String::new(),
            component: String::new(),
            from: None,
            before: None,
            providers: Vec::new(),
            kubernetes_before: None,
            says: String::new(),
            remedy: None,
            blocking: false,
            source: None,
            date: None,
        };
        let fields = self.mapping(node, "notes")?;
        for entry in fields {
            let value = &entry.value;
            match entry.key.as_str() {
                "name" => name = self.note_name(value),
                "component" => component = self.one_of(value, "notes.component", &COMPONENTS),
                "from" => note.from = self.note_version(value, "notes.from"),
                "before" => note.before = self.note_version(value, "notes.before"),
                "kubernetesBefore" => note.kubernetes_before = self.note_version(value, "notes.kubernetesBefore"),
                "providers" => {
                    let items = value.as_sequence().unwrap_or_default();
                    note.providers =
                        items.iter().filter_map(|item| self.one_of(item, "notes.providers", &PROVIDERS)).collect();
                    if note.providers.is_empty() {
                        let hint = format!("providers are: {}", PROVIDERS.join(", "));
                        self.problem(value.span, "notes.providers must be a list that is not empty", Some(hint));
                    }
                }
                "says" => says = self.text(value, "notes.says"),
                "remedy" => note.remedy = self.text(value, "notes.remedy"),
                // What is not understood of a bar does not lower it.
                "blocking" => note.blocking = self.boolean(value, "notes.blocking").unwrap_or(true),
                "source" => note.source = self.text(value, "notes.source"),
                "date" => note.date = self.day(value, "notes.date"),
                _ => self.unknown(entry, "notes", &NOTE),
            }
        }
        for (field, help) in [
            ("name", "give it a short name, by which a waiver can name it"),
            ("component", "name whose version it is about, such as kubernetes or eksa"),
            ("says", "say what has to be known before that version"),
        ] {
            if fields.get(field).is_none() {
                self.problem(node.span, format!("a note has no {field}, so it is not told"), Some(help.to_owned()));
            }
        }
        if let (Some(from), Some(before)) = (note.from, note.before)
            && from >= before
        {
            let hint =
                "`from` is the first version that the note is about, `before` the first that it is about no more";
            let message = format!("notes: no version is from {from} and before {before}");
            self.problem(node.span, message, Some(hint.to_owned()));
        }
        Some(ReleaseNote { name: name?, component: component?, says: says?, ..note })
    }

    /// A name as Kubernetes has them, since waivers name notes as they name objects.
    fn note_name(&mut self, node: &Node) -> Option<String> {
        let text = self.text(node, "notes.name")?;
        let is_name =
            text.chars().all(|sign| sign.is_ascii_lowercase() || sign.is_ascii_digit() || "-.".contains(sign));
        if !is_name {
            let message =
                format!("notes.name: {text:?} is not a valid name; lower-case letters, digits, - and . make one");
            self.problem(node.span, message, None);
        }
        is_name.then_some(text)
    }

    fn note_version(&mut self, node: &Node, place: &str) -> Option<NoteVersion> {
        let text = self.text(node, place)?;
        // 1.30 without quotes is the number 1.3.
        let is_number = node.as_str().is_none();
        match text.parse() {
            Ok(version) if !is_number => Some(version),
            Ok(_) => {
                let error = NoteVersionError(text);
                self.problem(node.span, format!("{place}: {error}"), None);
                None
            }
            Err(error @ NoteVersionError(_)) => {
                self.problem(node.span, format!("{place}: {error}"), None);
                None
            }
        }
    }

    fn one_of(&mut self, node: &Node, place: &str, known: &[&str]) -> Option<String> {
        let text = self.text(node, place)?;
        if known.contains(&text.as_str()) {
            return Some(text);
        }
        let hint = match nearest(&text, known) {
            Some(name) => format!("did you mean {name:?}?"),
            None => format!("known here: {}", known.join(", ")),
        };
        self.problem(node.span, format!("{place}: {text:?} is not known"), Some(hint));
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<ReleaseNote>, Vec<String>) {
        let (policy, problems) = crate::read_policy(&RepoPath::new("stepgate.yaml").unwrap(), text.as_bytes());
        let told = |problem: &Problem| {
            let hint = problem.hint.clone().unwrap_or_default();
            format!("{}: {}; {hint}", problem.line.unwrap_or(0), problem.message)
        };
        (policy.notes, problems.iter().map(told).collect())
    }

    #[test]
    fn a_note_names_component_versions_and_what_is_to_be_done() {
        let text = "notes:\n- {name: images, component: kubernetes, from: \"1.35\", before: v1.36.2, providers: [vSphere], \
                    kubernetesBefore: '1.34', says: s, remedy: r, blocking: true, source: wiki, date: 2026-03-01}\n\
                    - {name: every-minor, component: eksa, says: s}\n";
        let (notes, problems) = read(text);
        assert_eq!(problems, [""; 0]);
        assert_eq!(notes.len(), 2);
        assert_eq!(notes[0].from.map(|version| version.to_string()).as_deref(), Some("1.35.0"));
        assert_eq!(notes[0].before.map(|version| version.to_string()).as_deref(), Some("1.36.2"));
        assert!(notes[0].blocking && !notes[1].blocking && notes[1].from.is_none());
    }

    #[test]
    fn a_note_that_is_not_whole_says_what_is_wrong_with_it() {
        let note = |fields: &str| format!("notes:\n- {{name: n, component: eksa, says: s, {fields}}}\n");
        for (text, expected) in [
            ("notes: {}\n".to_owned(), "notes must be a list"),
            ("notes:\n- {component: eksa, says: s}\n".to_owned(), "a note has no name"),
            ("notes:\n- {name: n, says: s}\n".to_owned(), "a note has no component"),
            ("notes:\n- {name: n, component: eksa}\n".to_owned(), "a note has no says"),
            ("notes:\n- {name: n, component: eks, says: s}\n".to_owned(), "did you mean \"eksa\"?"),
            ("notes:\n- {name: N, component: eksa, says: s}\n".to_owned(), "\"N\" is not a valid name"),
            (note("from: 1.30"), "notes.from: \"1.30\" is not a valid version"),
            (note("from: '1'"), "\"1\" is not a valid version"),
            (note("before: '1.2.3.4'"), "\"1.2.3.4\" is not a valid version"),
            (note("from: '1.36', before: '1.35'"), "no version is from 1.36.0 and before 1.35.0"),
            (note("providers: [VSphere]"), "did you mean \"vSphere\"?"),
            (note("providers: []"), "must be a list that is not empty"),
            (note("blocking: maybe"), "notes.blocking must be true or false"),
            (note("date: yesterday"), "\"yesterday\" is not a valid day"),
            (note("bloking: true"), "did you mean \"blocking\"?"),
            (format!("{}- {{name: n, component: cilium, says: s}}\n", note("source: x")), "the name of another note"),
        ] {
            let problems = read(&text).1;
            assert!(problems.iter().any(|problem| problem.contains(expected)), "{text}: {problems:?}");
        }
        assert!(read(&note("blocking: maybe")).0[0].blocking);
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        for (text, expected) in [
            ("v1.18.2+9b355a2", Some("1.18.2")),
            ("v1.30.14-eks-1-30-58", Some("1.30.14")),
            ("1.34", Some("1.34.0")),
            ("v1.17.8-0", Some("1.17.8")),
            ("v0.25.0-dev+build.17+c76980a", Some("0.25.0")),
            ("v1.26.5---vmware.2-tkg.1", Some("1.26.5")),
            ("deprecated", None),
            ("", None),
        ] {
            assert_eq!(NoteVersion::of(text).map(|version| version.to_string()).as_deref(), expected, "{text}");
        }
    }
}
