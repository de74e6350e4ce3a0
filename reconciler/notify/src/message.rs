//! An announcement as a sink tells it.

use serde::{Deserialize, Serialize};

use crate::plain::{bounded, plain};
use policy::AnnouncementKind;
use rollout::{Announcement, Spans};

/// The most characters of one line that is told.
const LONGEST_LINE: usize = 1000;

/// The most lines that are told.
const MOST_LINES: usize = 30;

/// The object of Flux that people subscribe to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FluxObject {
    /// `Kustomization`, or the kind of the source.
    pub kind: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// The deploy branch, which revisions name.
    pub branch: String,
}

/// An announcement, whom it is about for Flux, and who tells it.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// What is told.
    pub announcement: Announcement,
    /// The object of Flux that it is about.
    pub object: FluxObject,
    /// Who tells it.
    pub routes: Vec<Route>,
    /// The spans that end with it, for every sink that takes traces.
    pub spans: Option<Spans>,
}

/// A sink that an announcement goes to.
#[derive(Clone, Debug)]
pub struct Route {
    /// Its name.
    pub to: String,
    /// The text of a template; none where the words are our own.
    pub text: Option<String>,
    /// The spans that it takes; none where it tells people.
    pub spans: Option<Spans>,
}

/// What one sink is to tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// What is told.
    pub announcement: Announcement,
    /// The object of Flux that it is about.
    pub object: FluxObject,
    /// The text of a template; none where the words are our own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The spans that end with it; none where the sink tells people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spans: Option<Spans>,
}

impl Message {
    /// Names what is told: told again, it is the same.
    #[must_use]
    pub fn id(&self) -> String {
        self.announcement.id().to_string()
    }

    /// What belongs together: one rollout of one cluster.
    #[must_use]
    pub fn thread(&self) -> String {
        format!("{}/{}", self.announcement.cluster, self.announcement.rollout)
    }

    /// The first line, without anything that a sink could take for more than text.
    #[must_use]
    pub fn title(&self) -> String {
        match &self.text {
            Some(text) => bounded(&plain(text.lines().next().unwrap_or_default()), LONGEST_LINE),
            None => bounded(&plain(&self.announcement.title()), LONGEST_LINE),
        }
    }

    /// The lines after the title.
    #[must_use]
    pub fn details(&self) -> Vec<String> {
        let lines: Vec<String> = match &self.text {
            Some(text) => text.lines().map(str::to_owned).collect(),
            None => self.announcement.lines(),
        };
        lines.iter().skip(1).take(MOST_LINES).map(|line| bounded(&plain(line), LONGEST_LINE)).collect()
    }

    /// All of it as plain text.
    #[must_use]
    pub fn whole(&self) -> String {
        let mut text = self.title();
        for line in self.details() {
            text.push('\n');
            text.push_str(&line);
        }
        text
    }

    /// Whether somebody has to look.
    #[must_use]
    pub fn is_alarming(&self) -> bool {
        matches!(self.announcement.kind, AnnouncementKind::Held | AnnouncementKind::RolledBack)
    }
}
