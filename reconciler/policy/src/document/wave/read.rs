//! `waves` of `stepgate.yaml`.

use yaml::{Node, Span};

use crate::document::read::Reader;
use crate::document::sections::lease::ReadLease;
use crate::document::types::Policy;
use crate::document::wave::{First, Share, Skip, Wave, WaveApproval, WaveOrder};

/// A cluster that a field of a wave names.
pub(in crate::document) struct NamedInWave {
    wave: usize,
    field: &'static str,
    cluster: String,
    span: Span,
}

const WAVE: [&str; 13] = [
    "name",
    "clusters",
    "environments",
    "concurrency",
    "first",
    "maxFailures",
    "soak",
    "deadline",
    "order",
    "skip",
    "paused",
    "approval",
    "approvers",
];

/// The most clusters that a number of a wave may mean.
const MOST: u32 = 10_000;

/// Rules of `approvers` that look at what a stage changes, and say nothing of a wave.
const OF_STAGES: [&str; 3] = ["codeOwners", "separate", "checkList"];

/// Fields that somebody may look for here, and what to write in their place.
const ELSEWHERE: [(&str, &str); 3] = [
    ("windows", "write `windows` for its clusters or their environment"),
    ("freezes", "write `freezes` for its clusters or their environment"),
    ("onDeadline", "leave it out: a wave whose deadline is over begins nothing more, and there is no other choice"),
];

impl Reader<'_> {
    pub(in crate::document) fn waves(&mut self, node: &Node) -> Vec<Wave> {
        let mut waves = Vec::new();
        let Some(items) = node.as_sequence() else {
            if !node.is_null() {
                self.problem(node.span, "waves must be a list", None);
            }
            return waves;
        };
        for (index, item) in items.iter().enumerate() {
            let wave = self.wave(item, index);
            waves.push(wave);
        }
        waves
    }

    fn wave(&mut self, item: &Node, index: usize) -> Wave {
        let mut wave = Wave::named(format!("wave-{}", index + 1));
        for entry in self.mapping(item, "waves").into_iter().flatten() {
            let node = &entry.value;
            match entry.key.as_str() {
                "name" => wave.name = self.text(node, "waves.name").unwrap_or(wave.name),
                "clusters" => wave.clusters = self.texts(node, "waves.clusters"),
                "environments" => wave.environments = self.texts(node, "waves.environments"),
                "concurrency" => {
                    wave.concurrency = self.share(node, "waves.concurrency", 1).unwrap_or(wave.concurrency);
                }
                "first" => wave.first = self.first(node, index),
                "maxFailures" => {
                    wave.max_failures = self.share(node, "waves.maxFailures", 0).unwrap_or(wave.max_failures);
                }
                "soak" => wave.soak = self.duration(node, "waves.soak").unwrap_or_default(),
                "deadline" => wave.deadline = self.duration(node, "waves.deadline"),
                "order" => {
                    let choices =
                        [("listed", WaveOrder::Listed), ("name", WaveOrder::Name), ("smallest", WaveOrder::Smallest)];
                    wave.order = self.choice(node, "waves.order", &choices).unwrap_or_default();
                }
                "skip" => wave.skip = self.skips(node, index),
                "paused" => wave.paused = self.paused(node, "waves.paused"),
                "approval" => {
                    let choices = [
                        ("none", WaveApproval::None),
                        ("before", WaveApproval::Before),
                        ("after", WaveApproval::After),
                    ];
                    // A mistake asks for more, not for less.
                    wave.approval = self.choice(node, "waves.approval", &choices).unwrap_or(WaveApproval::Before);
                    self.approved_waves.push((index, entry.key_span));
                }
                "approvers" => {
                    wave.approvers = self.approvers(node, "waves.approvers");
                    for name in OF_STAGES.iter().filter(|name| node.get(name).is_some()) {
                        let hint = "write it under `approvers` of its clusters, their environment or the stage";
                        self.problem(
                            node.span,
                            format!("{name} concerns stages, and not a wave"),
                            Some(hint.to_owned()),
                        );
                    }
                }
                name => match ELSEWHERE.iter().find(|(known, _)| *known == name) {
                    Some((_, hint)) => {
                        let message = format!("{name} is not a setting of waves");
                        self.problem(entry.key_span, message, Some((*hint).to_owned()));
                    }
                    None => self.unknown(entry, "waves", &WAVE),
                },
            }
        }
        wave
    }

    /// A number from `minimum` on, or per cent.
    fn share(&mut self, node: &Node, place: &str, minimum: u32) -> Option<Share> {
        let count = node.as_i64().and_then(|count| u32::try_from(count).ok());
        let text = node.scalar_text();
        let percent = text.as_deref().and_then(|text| text.strip_suffix('%')).and_then(|digits| digits.parse().ok());
        let share = match (count, percent) {
            (Some(count), _) if (minimum..=MOST).contains(&count) => Some(Share::Count(count)),
            (None, Some(percent)) if (minimum..=100).contains(&percent) => Some(Share::Percent(percent)),
            _ => None,
        };
        if share.is_none() {
            let message = format!("{place} must be a number from {minimum} to {MOST}, or per cent such as 25%");
            self.problem(node.span, message, None);
        }
        share
    }

    /// Names of clusters, or how many.
    fn first(&mut self, node: &Node, wave: usize) -> First {
        if node.as_sequence().is_none() {
            let count = node.as_i64().and_then(|count| u32::try_from(count).ok());
            let count = count.filter(|count| (1..=MOST).contains(count));
            if count.is_none() && !node.is_null() {
                let message = format!("waves.first must be a list of clusters, or a number from 1 to {MOST}");
                self.problem(node.span, message, None);
            }
            return First::Count(count.unwrap_or(0));
        }
        let names = self.texts(node, "waves.first");
        for cluster in &names {
            let cluster = cluster.clone();
            self.in_waves.push(NamedInWave { wave, field: "waves.first", cluster, span: node.span });
        }
        First::Named(names)
    }

    fn skips(&mut self, node: &Node, wave: usize) -> Vec<Skip> {
        if !node.is_null() && node.as_sequence().is_none() {
            self.problem(node.span, "waves.skip must be a list", None);
        }
        let items = node.as_sequence().unwrap_or_default();
        items.iter().filter_map(|item| self.skip(item, wave)).collect()
    }

    /// One of them; none where something is missing: nobody is left out by a mistake.
    fn skip(&mut self, node: &Node, wave: usize) -> Option<Skip> {
        let place = "waves.skip";
        let (mut cluster, mut lease) = (None, ReadLease::default());
        for entry in self.mapping(node, place)? {
            if entry.key.as_str() == "cluster" {
                cluster = self.text(&entry.value, "waves.skip.cluster");
            } else if !self.lease_field(entry, place, &mut lease) {
                self.unknown(entry, place, &["cluster", "reason", "until", "by"]);
            }
        }
        if node.get("cluster").is_none() {
            let hint = "name it: `{cluster: edge-3, reason: …, until: …, by: …}`".to_owned();
            self.problem(node.span, format!("{place} has no cluster"), Some(hint));
        }
        if let Some(cluster) = cluster.clone() {
            self.in_waves.push(NamedInWave { wave, field: "waves.skip", cluster, span: node.span });
        }
        let lease = self.whole_lease(node, place, lease)?;
        Some(Skip { cluster: cluster?, lease })
    }

    /// Where somebody is asked about a wave, it has to be known about which one, and whose word it is.
    pub(in crate::document) fn check_approved_waves(&mut self, policy: &Policy) {
        for (place, span) in std::mem::take(&mut self.approved_waves) {
            let Some(own) = policy.waves.get(place).filter(|wave| wave.approval != WaveApproval::None) else {
                continue;
            };
            let same = policy.waves.iter().filter(|wave| wave.name == own.name).count();
            if same > 1 {
                let message = format!("waves.approval: {same} waves are called {}", own.name);
                self.problem(
                    span,
                    message,
                    Some("give each a name of its own: a wave is approved by its name".to_owned()),
                );
            }
            if policy.forge.is_some() && !policy.wave_approvers(own).take_anybody() {
                let message = format!(
                    "waves.approval: a commit approves wave {}, and with a forge nobody is known by a commit",
                    own.name
                );
                let hint = "write `approval: rollout` for its clusters, which are approved on the forge; or \
                            `approvers: {minimum: 1, groups: {}, author: true}` for the wave: then whoever may push approves it";
                self.problem(span, message, Some(hint.to_owned()));
            }
        }
    }

    /// Whoever is named in a wave has to belong to it: else a canary would be nobody, and a skip would skip nobody.
    pub(in crate::document) fn check_named_in_waves(&mut self, policy: &Policy) {
        for NamedInWave { wave, field, cluster, span } in std::mem::take(&mut self.in_waves) {
            let Some(own) = policy.waves.get(wave) else { continue };
            if cluster.contains('*') {
                let message = format!("{field}: {cluster:?} is a pattern, and clusters are named here");
                self.problem(span, message, Some("write the names of the clusters, each by itself".to_owned()));
            } else if policy.wave_of(&cluster) != Some(wave) {
                let message = format!("{field}: cluster {cluster} does not belong to wave {}", own.name);
                let hint = match policy.wave_of(&cluster).and_then(|other| policy.waves.get(other)) {
                    Some(other) => format!("it belongs to wave {}", other.name),
                    None => "add it to `clusters` of the wave, or take it out here".to_owned(),
                };
                self.problem(span, message, Some(hint));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use domain::RepoPath;

    use crate::{First, Policy, Share, WaveApproval, WaveOrder, read_policy};

    fn read(text: &str) -> (Policy, Vec<String>) {
        let (policy, problems) = read_policy(&RepoPath::new("stepgate.yaml").unwrap(), text.as_bytes());
        let told = problems.iter().map(|it| format!("{}; {}", it.message, it.hint.clone().unwrap_or_default()));
        (policy, told.collect())
    }

    #[test]
    fn a_wave_says_when_it_is_approved_and_by_whom() {
        let text = "groups: {platform: [alice], operations: [bob]}\napprovers: {minimum: 2, codeOwners: true, groups: {platform: 1}}\n\
                    waves:\n- {name: a, clusters: [a], approval: before}\n\
                    - {name: b, clusters: [b], approval: after, approvers: {groups: {operations: 1}}}\n- {clusters: [c]}\n";
        let (policy, problems) = read(text);
        assert_eq!(problems, [""; 0]);
        let approvals: Vec<WaveApproval> = policy.waves.iter().map(|wave| wave.approval).collect();
        assert_eq!(approvals, [WaveApproval::Before, WaveApproval::After, WaveApproval::None]);
        let rules = |place: usize| policy.wave_approvers(&policy.waves[place]).to_string();
        assert_eq!(
            rules(0),
            "2 approvals, 1 of group platform, not by who wrote it",
            "as the fleet says, but for what concerns stages"
        );
        assert_eq!(rules(1), "2 approvals, 1 of group operations, not by who wrote it");
        let forge = "forge: {kind: gitea, url: https://git.example.com, repository: a/b}\n";
        let (_, problems) = read(&format!("{forge}{text}"));
        assert!(
            problems.iter().any(|it| it.contains("a commit approves wave a, and with a forge nobody is known")),
            "{problems:?}"
        );
        let (_, problems) = read(&format!("{forge}waves: [{{clusters: [a], approval: after}}]\n"));
        assert_eq!(problems, [""; 0], "whoever may push");
        let (_, problems) = read("waves: [{name: w, clusters: [a], approval: before}, {name: w, clusters: [b]}]\n");
        assert!(problems.iter().any(|it| it.contains("waves.approval: 2 waves are called w")), "{problems:?}");
    }

    #[test]
    fn a_wave_says_how_many_go_who_goes_first_and_how_many_may_fail() {
        let (policy, problems) = read(
            "waves:\n- name: canary\n  clusters: [a, b*]\n  concurrency: 25%\n  first: [b1]\n  maxFailures: 10%\n  soak: 24h\n  \
             deadline: 14d\n  order: listed\n  paused: {reason: audit, until: 2026-03-01, by: ops}\n  \
             skip: [{cluster: b2, reason: racks move, until: 2026-03-01T18:00Z, by: storage}]\n- {clusters: ['*'], first: 2}\n",
        );
        assert_eq!(problems, [""; 0]);
        let [canary, rest] = &policy.waves[..] else { panic!("{policy:?}") };
        assert_eq!((canary.concurrency, canary.max_failures), (Share::Percent(25), Share::Percent(10)));
        assert_eq!((&canary.first, &rest.first), (&First::Named(vec!["b1".to_owned()]), &First::Count(2)));
        assert_eq!((canary.soak, canary.order), (Duration::from_secs(86_400), WaveOrder::Listed));
        assert_eq!((rest.concurrency, rest.max_failures), (Share::Count(1), Share::Count(0)));
        assert_eq!((rest.deadline, rest.order), (None, WaveOrder::Name));
        let at = |time: &str| canary.skipped("b2", time.parse().unwrap()).map(ToString::to_string);
        assert_eq!(at("2026-03-01T17:00:00Z").unwrap(), "until 2026-03-01T18:00:00Z by storage: racks move");
        assert_eq!(at("2026-03-01T18:00:00Z"), None);
        assert!(policy.is_paused("a", "2026-03-01T17:00:00Z".parse().unwrap()), "its wave is");
        assert!(!policy.is_paused("c", "2026-03-01T17:00:00Z".parse().unwrap()));
        let listed = ["a", "b1", "x"].map(|cluster| canary.listed(cluster));
        assert_eq!(listed, [0, 1, 2]);
    }

    #[test]
    fn what_a_wave_cannot_mean_is_refused_by_name() {
        for (wave, told) in [
            ("concurrency: 0", "waves.concurrency must be a number from 1 to 10000, or per cent such as 25%"),
            ("concurrency: 101%", "waves.concurrency must be"),
            ("concurrency: 0%", "waves.concurrency must be"),
            ("concurrency: 2.5%", "waves.concurrency must be"),
            ("maxFailures: -1", "waves.maxFailures must be a number from 0 to 10000"),
            ("first: 0", "waves.first must be a list of clusters, or a number from 1 to 10000"),
            ("first: [c]", "waves.first: cluster c does not belong to wave w; it belongs to wave rest"),
            ("first: [z]", "waves.first: cluster z does not belong to wave w; add it to `clusters`"),
            ("first: ['a*']", "waves.first: \"a*\" is a pattern, and clusters are named here"),
            ("order: size", "waves.order must be one of listed, name, smallest, not \"size\""),
            ("deadline: soon", "waves.deadline: \"soon\" is not a duration"),
            ("skip: [{cluster: a, until: 2026-03-01, by: ops}]", "waves.skip has no reason"),
            ("skip: [{cluster: a, reason: r, by: ops}]", "waves.skip has no until"),
            ("skip: [{reason: r, until: 2026-03-01, by: ops}]", "waves.skip has no cluster"),
            ("skip: [{cluster: c, reason: r, until: 2026-03-01, by: o}]", "cluster c does not belong to wave w"),
            ("skip: {cluster: a}", "waves.skip must be a list"),
            ("approval: stage", "waves.approval must be one of none, before, after, not \"stage\""),
            ("approvers: {groups: {nobody: 1}}", "group \"nobody\" is not under groups"),
            ("approvers: {codeOwners: true}", "codeOwners concerns stages, and not a wave"),
            ("windows: []", "windows is not a setting of waves; write `windows` for its clusters"),
            ("onDeadline: hold", "onDeadline is not a setting of waves; leave it out"),
            ("maxFailure: 1", "unknown field \"maxFailure\" in waves; did you mean \"maxFailures\"?"),
        ] {
            let (_, problems) =
                read(&format!("waves:\n- {{name: w, clusters: [a], {wave}}}\n- {{name: rest, clusters: [c]}}\n"));
            assert!(problems.iter().any(|problem| problem.contains(told)), "{wave}: {problems:?}");
        }
    }
}
