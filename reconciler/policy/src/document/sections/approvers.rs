//! Who has to approve, and who is who: `approvers`, `groups` and `people` of `stepgate.yaml`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use yaml::{Node, Span};

use crate::document::read::Reader;
use crate::document::schema::every_field_is_optional;
use crate::{ApprovalRules, CheckBox};
use domain::nearest;

/// Rules for approvals as written at one level; what is absent comes from the next weaker level.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = every_field_is_optional)]
pub struct ApproverRules {
    /// How many people at least.
    pub minimum: Option<u32>,
    /// How many of each named group. A level that names any takes the place of what weaker levels name.
    pub groups: Option<BTreeMap<String, u32>>,
    /// Whether owners by CODEOWNERS have to be heard.
    pub code_owners: Option<bool>,
    /// Whether who wrote a change may approve it.
    pub author: Option<bool>,
    /// Whether a stage without a way back is approved apart from the others.
    pub separate: Option<bool>,
    /// What is ticked before a stage is approved. A level that names any takes the place of what weaker levels name.
    pub check_list: Option<Vec<CheckBox>>,
}

impl ApproverRules {
    pub(in crate::document) fn over(&self, weaker: &mut Self) {
        weaker.minimum = self.minimum.or(weaker.minimum);
        weaker.code_owners = self.code_owners.or(weaker.code_owners);
        weaker.author = self.author.or(weaker.author);
        weaker.separate = self.separate.or(weaker.separate);
        if self.groups.is_some() {
            weaker.groups.clone_from(&self.groups);
        }
        if self.check_list.is_some() {
            weaker.check_list.clone_from(&self.check_list);
        }
    }

    /// Whether any rule is written.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

const RULES: [&str; 6] = ["minimum", "groups", "codeOwners", "author", "separate", "checkList"];

const BOX: [&str; 3] = ["name", "says", "by"];

impl From<&ApproverRules> for ApprovalRules {
    /// Whoever writes any rule means that nobody approves alone what is their own.
    fn from(written: &ApproverRules) -> Self {
        Self {
            minimum: written.minimum.unwrap_or(1),
            groups: written.groups.clone().unwrap_or_default(),
            code_owners: written.code_owners.unwrap_or(false),
            author: written.author.unwrap_or(written.is_empty()),
            separate: written.separate.unwrap_or(false),
            check_list: written.check_list.clone().unwrap_or_default(),
        }
    }
}

impl Reader<'_> {
    pub(in crate::document) fn approvers(&mut self, node: &Node, place: &str) -> ApproverRules {
        let mut rules = ApproverRules::default();
        for entry in self.mapping(node, place).into_iter().flatten() {
            let (value, place) = (&entry.value, format!("{place}.{}", entry.key));
            match entry.key.as_str() {
                "minimum" => rules.minimum = self.number(value, &place, 1, 100),
                "groups" => rules.groups = Some(self.wanted_groups(value, &place)),
                "codeOwners" => rules.code_owners = self.boolean(value, &place),
                "author" => rules.author = self.boolean(value, &place),
                "separate" => rules.separate = self.boolean(value, &place),
                "checkList" => rules.check_list = Some(self.check_list(value, &place)),
                _ => self.unknown(entry, "approvers", &RULES),
            }
        }
        rules
    }

    /// Boxes, each with a name of its own.
    fn check_list(&mut self, node: &Node, place: &str) -> Vec<CheckBox> {
        if !node.is_null() && node.as_sequence().is_none() {
            self.problem(node.span, format!("{place} must be a list"), None);
        }
        let mut boxes: Vec<CheckBox> = Vec::new();
        for item in node.as_sequence().unwrap_or_default() {
            let Some(known) = self.check_box(item, place) else { continue };
            if boxes.iter().any(|other| other.name == known.name) {
                self.problem(item.span, format!("{place}: {:?} is there already", known.name), None);
            } else {
                boxes.push(known);
            }
        }
        boxes
    }

    /// One of them. Kept even where something is wrong with it: a box that was meant is not dropped.
    fn check_box(&mut self, node: &Node, place: &str) -> Option<CheckBox> {
        let mut known = CheckBox { name: String::new(), says: String::new(), by: None };
        for entry in self.mapping(node, place)? {
            let value = &entry.value;
            match entry.key.as_str() {
                "name" => known.name = self.text(value, &format!("{place}.name")).unwrap_or_default(),
                "says" => known.says = self.text(value, &format!("{place}.says")).unwrap_or_default(),
                "by" => {
                    known.by = self.text(value, &format!("{place}.by"));
                    if let Some(group) = &known.by {
                        self.wanted.push((group.clone(), 1, value.span, self.cluster.clone()));
                    }
                }
                _ => self.unknown(entry, place, &BOX),
            }
        }
        let is_name = known.name.bytes().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-')
            && known.name.bytes().next().is_some_and(|it| it != b'-');
        if !is_name {
            let help = "write lower-case letters, digits and dashes: `name: dashboards`";
            self.problem(
                node.span,
                format!("{place}: a box has no name by which it could be ticked"),
                Some(help.to_owned()),
            );
        }
        if known.says.is_empty() {
            let help = "say what is to be looked at: `says: no alert is new`";
            self.problem(node.span, format!("{place}: a box says nothing"), Some(help.to_owned()));
        }
        Some(known)
    }

    /// How many of which group: those that nobody describes are told once everything is read.
    fn wanted_groups(&mut self, node: &Node, place: &str) -> BTreeMap<String, u32> {
        let mut groups = BTreeMap::new();
        for entry in self.mapping(node, place).into_iter().flatten() {
            let name = entry.key.to_string();
            // Kept even where the number is wrong: a rule that was meant is not dropped.
            let wanted = self.number(&entry.value, &format!("{place}.{name}"), 0, 100).unwrap_or(1);
            self.wanted.push((name.clone(), wanted, entry.key_span, self.cluster.clone()));
            groups.insert(name, wanted);
        }
        groups
    }

    /// Lists of names, by name.
    pub(in crate::document) fn named_lists(&mut self, node: &Node, place: &str) -> BTreeMap<String, Vec<String>> {
        let mut lists = BTreeMap::new();
        for entry in self.mapping(node, place).into_iter().flatten() {
            let names = self.texts(&entry.value, &format!("{place}.{}", entry.key));
            lists.insert(entry.key.to_string(), names);
        }
        lists
    }

    /// Says which rules cannot be met by the groups that are described.
    pub(in crate::document) fn check_wanted_groups(&mut self, groups: &BTreeMap<String, Vec<String>>) {
        let names: Vec<&str> = groups.keys().map(String::as_str).collect();
        for (name, wanted, span, cluster) in std::mem::take(&mut self.wanted) {
            let problem: Option<(Span, String, Option<String>)> = match groups.get(&name) {
                None => {
                    let hint = nearest(&name, &names).map(|name| format!("did you mean {name:?}?"));
                    Some((span, format!("group {name:?} is not under groups"), hint))
                }
                Some(members) if u32::try_from(members.len()).is_ok_and(|size| size < wanted) => {
                    let size = members.len();
                    Some((span, format!("group {name:?} has {size} members, and {wanted} have to approve"), None))
                }
                Some(_) => None,
            };
            if let Some((span, message, hint)) = problem {
                self.cluster = cluster;
                self.problem(span, message, hint);
                self.cluster = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Policy, read_policy};
    use domain::RepoPath;

    fn read(text: &str) -> (Policy, Vec<String>) {
        let (policy, problems) = read_policy(&RepoPath::new("stepgate.yaml").unwrap(), text.as_bytes());
        (policy, problems.iter().map(ToString::to_string).collect())
    }

    fn written(policy: &Policy, cluster: &str, stage: &str) -> ApproverRules {
        let mut rules = ApproverRules::default();
        policy.settings_of(cluster, stage).iter().for_each(|settings| settings.approvers.over(&mut rules));
        rules
    }

    #[test]
    fn whoever_writes_a_rule_means_that_authors_do_not_approve() {
        let rules = |written: &ApproverRules| ApprovalRules::from(written);
        assert!(rules(&ApproverRules::default()).take_anybody());
        let two = ApproverRules { minimum: Some(2), ..ApproverRules::default() };
        assert_eq!((rules(&two).minimum, rules(&two).author), (2, false));
        assert!(rules(&ApproverRules { author: Some(true), ..two }).author);
    }

    #[test]
    fn the_most_specific_rule_wins_field_by_field() {
        let (policy, problems) = read(
            "groups: {platform: [alice, Bob <bob@x.org>], database: ['@carol']}\npeople: {alice: [alice@x.org]}\n\
             approvers: {minimum: 2, codeOwners: true, groups: {platform: 1}}\n\
             stages: {etcd: {approvers: {groups: {database: 1}}}}\n\
             environments: {lab: {clusters: ['lab-*'], approvers: {minimum: 1, codeOwners: false}}}\n\
             clusters: {lab-1: {stages: {etcd: {approvers: {separate: true}}}}}\n",
        );
        assert_eq!(problems, [""; 0]);
        let rules = |cluster: &str, stage: &str| written(&policy, cluster, stage);
        let groups = |cluster: &str, stage: &str| rules(cluster, stage).groups.unwrap().into_keys().collect::<Vec<_>>();
        assert_eq!((rules("prod", "capi").minimum, groups("prod", "capi")), (Some(2), vec!["platform".to_owned()]));
        assert_eq!((rules("prod", "etcd").minimum, groups("prod", "etcd")), (Some(2), vec!["database".to_owned()]));
        let lab = rules("lab-1", "etcd");
        assert_eq!((lab.minimum, lab.code_owners, lab.separate, lab.author), (Some(1), Some(false), Some(true), None));
        assert!(policy.groups["platform"].len() == 2 && policy.people["alice"] == ["alice@x.org"]);
        assert!(written(&read("").0, "x", "capi").is_empty());
    }

    #[test]
    fn every_mistake_is_told() {
        for (text, wanted) in [
            ("approvers: {minimum: 0}", "approvers.minimum must be a number from 1 to 100"),
            ("approvers: {minimun: 1}", "unknown field \"minimun\" in approvers"),
            ("approvers: {groups: {platfrom: 1}}\ngroups: {platform: [a]}", "group \"platfrom\" is not under groups"),
            ("approvers: {groups: {a: 3}}\ngroups: {a: [b, c]}", "has 2 members, and 3 have to approve"),
            ("groups: {a: b}", "groups.a must be a list"),
            ("approvers: {checkList: [{name: a b, says: s}]}", "a box has no name by which it could be ticked"),
            ("approvers: {checkList: [{name: a}]}", "a box says nothing"),
            (
                "approvers: {checkList: [{name: a, says: s, by: c}]}\ngroups: {d: [e]}",
                "group \"c\" is not under groups",
            ),
            ("approvers: {checkList: [{name: a, says: s}, {name: a, says: t}]}", "\"a\" is there already"),
        ] {
            let (_, problems) = read(text);
            assert!(problems.iter().any(|problem| problem.contains(wanted)), "{text}: {problems:?}");
        }
    }
}
