//! Policies as people push them: each field that is judged before and after, in a few forms.

use std::sync::Arc;

use domain::RepoPath;
use policy::{Policy, read_policy};
use simulator::Random;

use super::super::Field;

/// Which form of each field a policy has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knobs(pub [u8; FORMS.len()]);

/// Each field with its forms, as lines of `stepgate.yaml`.
const FORMS: [(&str, &[&str]); 25] = [
    (
        "people",
        &[
            "{alice: [alice@x.org], bob: [bob@x.org], mallory: [mallory@x.org]}",
            "{alice: [alice@x.org, mallory@x.org], bob: [bob@x.org]}",
            "{alice: [alice@x.org], bob: [bob@x.org], mallory: [other@x.org], carol: [mallory@x.org]}",
        ],
    ),
    ("groups", &["{platform: [alice, bob]}", "{platform: [alice, bob, mallory]}", "{platform: [mallory]}"]),
    (
        "approvers",
        &[
            "{groups: {platform: 1}, author: true}",
            "{minimum: 2, author: true}",
            "{author: false}",
            "{codeOwners: true, author: true}",
            "{minimum: 1, author: true}",
        ],
    ),
    ("approval", &["stage", "stage", "none"]),
    ("acceptEdits", &["true", "false"]),
    ("onStaleMerge", &["revert", "hold"]),
    ("windows", &["[]", "[{from: \"09:00\", to: \"09:05\"}]", "[{from: \"09:03\", to: \"10:00\"}]"]),
    ("paused", &["false", "false", "true"]),
    ("allowDowngrade", &["true", "false"]),
    ("allowForcedUpdate", &["true", "false"]),
    ("allowMinorRollback", &["true", "false"]),
    ("restartFargate", &["true", "false"]),
    (
        "forceDrain",
        &[
            "[]",
            "[{group: md-0, after: 10m, pods: 3}]",
            "[{group: md-0, after: 1h, pods: 1}, {group: b, after: 1h, pods: 1}]",
        ],
    ),
    ("fetch", &["{allow: [a.example.com, b.example.com]}", "{allow: [a.example.com]}"]),
    (
        "forge",
        &[
            "{kind: gitea, url: 'https://git.example.com', repository: platform/fleet}",
            "null",
            "{kind: gitea, url: 'https://git.example.com', repository: mallory/fleet}",
        ],
    ),
    ("deploy", &["{branch: deploy}", "{branch: elsewhere}", "{branch: deploy, path: inside}"]),
    ("apply", &["flux", "direct"]),
    ("author", &["{name: Stepgate, email: stepgate@x.org}", "{name: Mallory, email: mallory@x.org}"]),
    ("signing", &["null", "{format: gpg}"]),
    ("signatures", &["off", "require"]),
    (
        "waivers",
        &[
            "[]",
            "[{check: nodes, reason: r, expires: 2026-12-31}]",
            "[{check: nodes, object: Node/a, reason: r, expires: 2026-06-30}]",
        ],
    ),
    ("drift", &["{}", "{ignore: [{paths: [/spec]}]}", "{ignore: [{paths: [/spec/replicas], managers: [hpa]}]}"]),
    ("notes", &["[]", "[{name: n, component: eksa, says: s, blocking: true}]"]),
    ("injection", &["[]", "[{name: agent, labels: {inject: enabled}, containers: [agent]}]"]),
    ("stages", &["{}", "{control-plane: {gate: first-node}}", "{control-plane: {brakes: false, gate: first-node}}"]),
];

/// Fields of which two values cannot be met at once: what changes them lets nothing land, so they are changed less often.
const HELD: [&str; 5] = ["forge", "deploy", "apply", "author", "signing"];

/// What pushes are about more often than about anything else.
#[derive(Clone, Copy, Debug)]
pub struct Focus(Option<usize>);

impl Focus {
    pub fn on(field: Option<Field>) -> Self {
        let name = field.map(|field| field.name().split('.').next().unwrap_or_default());
        Self(name.and_then(|name| FORMS.iter().position(|(known, _)| *known == name)))
    }

    fn draw(self, random: &mut Random) -> usize {
        if let Self(Some(which)) = self
            && random.chance(1, 2)
        {
            return which;
        }
        let which = usize::try_from(random.below(FORMS.len() as u64)).unwrap();
        if HELD.contains(&FORMS[which].0) && random.chance(4, 5) {
            return self.draw(random);
        }
        which
    }
}

impl Knobs {
    /// A policy to begin with; most fields are what they are as a rule, so that something lands at all.
    pub fn first(focus: Focus, random: &mut Random) -> Self {
        let mut knobs = Self([0; FORMS.len()]);
        for _ in 0..4 {
            knobs = knobs.turned(focus, random);
        }
        knobs.without_pause()
    }

    /// The same with another form of one field.
    pub fn turned(self, focus: Focus, random: &mut Random) -> Self {
        let mut knobs = self;
        let which = focus.draw(random);
        let forms = FORMS[which].1.len() as u64;
        knobs.0[which] = u8::try_from((u64::from(knobs.0[which]) + 1 + random.below(forms - 1)) % forms).unwrap();
        knobs
    }

    /// The same with one field as it is in another.
    pub fn nearer(self, other: Self, random: &mut Random) -> Self {
        let mut knobs = self;
        let differing: Vec<usize> = (0..FORMS.len()).filter(|which| self.0[*which] != other.0[*which]).collect();
        if let Some(which) = random.choose(&differing) {
            knobs.0[*which] = other.0[*which];
        }
        knobs
    }

    fn without_pause(self) -> Self {
        let paused = FORMS.iter().position(|(name, _)| *name == "paused").unwrap();
        let mut knobs = self;
        knobs.0[paused] = 0;
        knobs
    }

    pub fn text(&self) -> String {
        let line = |((name, forms), form): (&(&str, &[&str]), &u8)| match forms[usize::from(*form)] {
            "null" => String::new(),
            form => format!("{name}: {form}\n"),
        };
        FORMS.iter().zip(&self.0).map(line).collect()
    }

    pub fn policy(&self) -> Arc<Policy> {
        let (policy, problems) = read_policy(&RepoPath::new("stepgate.yaml").unwrap(), self.text().as_bytes());
        assert!(problems.is_empty(), "{problems:?}");
        Arc::new(policy)
    }
}
