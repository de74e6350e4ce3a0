//! Approving a wave, or saying no to it: a commit on the deploy branch, by whoever says so, about the plans that its clusters have.

use std::collections::BTreeMap;

use domain::{ClusterName, CommitId, PlanDigest};
use jiff::Timestamp;
use planning::progress::{AskedWave, FleetProgress, asked_wave};
use policy::Person;
use rollout::{Standing, WaveAnswer, WaveQuestion, WaveState, WaveWord, asked_plans};

use super::error::WaveError;
use super::record::{record_path, record_text};
use crate::reconcile::effects::commit::Signature;
use crate::reconcile::people::authors::{authors, authors_of_last};
use crate::reconcile::planner::{ClusterView, FleetReading, Planner};
use crate::reconcile::proposal::{AnswerError, write};
use git::{CommitDraft, CommitMessage, Identity};

/// What is said of a wave.
#[derive(Clone, Copy, Debug)]
pub enum Said<'a> {
    /// Yes.
    Yes,
    /// No, and why.
    No(&'a str),
}

/// What an answer came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnsweredWave {
    /// The wave.
    pub wave: String,
    /// What it was asked.
    pub question: WaveQuestion,
    /// The plans that are answered.
    pub plans: BTreeMap<ClusterName, PlanDigest>,
    /// The commit that says so; none for a dry run.
    pub commit: Option<CommitId>,
    /// What is missing still, a line each.
    pub missing: Vec<String>,
    /// Clusters that are not asked about, since no plan can be made of them, and why.
    pub unplanned: BTreeMap<ClusterName, String>,
}

/// Says something of a wave, of the plans that its clusters have now. Without `by` it only says what would be said.
///
/// # Errors
/// [`WaveError`]; nothing has changed then.
pub fn answer_wave(
    planner: &Planner,
    reading: &FleetReading,
    name: &str,
    by: Option<&Identity>,
    said: Said<'_>,
    now: Timestamp,
) -> Result<AnsweredWave, WaveError> {
    let waves = &reading.fleet.policy.waves;
    let Some(place) = waves.iter().position(|wave| wave.name == name) else {
        let known = waves.iter().map(|wave| wave.name.clone()).collect();
        return Err(WaveError::NoWave { name: name.to_owned(), known });
    };
    if let Some(problem) = &reading.wave_words.problem {
        return Err(WaveError::Unreadable(problem.clone()));
    }
    let (views, unplanned) = views(planner, reading, place);
    let mut progress = FleetProgress::default();
    progress.hear(&reading.wave_words);
    for view in views.values() {
        progress.note(&view.name, view.progress());
    }
    for cluster in unplanned.keys() {
        progress.give_up(cluster, reading.source_commit());
    }
    let asked = asked_wave(&reading.fleet, name, &progress, reading.source_commit(), now);
    let asked = asked.ok_or_else(|| WaveError::NotAsked(name.to_owned()))?;
    let question = question(&asked, now)?;
    let plans = asked_plans(&asked.wave, &asked.members, question, now);
    let plans: BTreeMap<ClusterName, PlanDigest> =
        plans.into_iter().filter_map(|(cluster, plan)| Some((cluster, plan?))).collect();
    for view in views.values() {
        let blocks = view.unconfirmed(reading);
        if !blocks.is_empty() {
            return Err(AnswerError::Unconfirmed { cluster: view.name.clone(), blocks }.into());
        }
    }
    let anybody = asked.asks.rules(question).is_none_or(policy::ApprovalRules::take_anybody);
    if !anybody && views.values().any(|view| view.has_forge(reading)) {
        return Err(WaveError::OnForge(name.to_owned()));
    }
    let mut written_by: Vec<Person> = Vec::new();
    for view in plans.keys().filter_map(|cluster| views.get(cluster)).filter(|_| !anybody) {
        let of = match question {
            WaveQuestion::Before => authors(planner, reading, view, &view.plan.source)?,
            WaveQuestion::After => authors_of_last(planner, reading, view)?,
        };
        written_by.extend(of.into_iter().filter(|author| !written_by.contains(author)).collect::<Vec<_>>());
    }
    let known = |word: &&WaveWord| word.wave == name && word.question == question && word.is_about(&plans);
    let mut about: Vec<&WaveWord> = reading.wave_words.words.iter().filter(known).collect();
    let Some(by) = by else {
        let missing = match said {
            Said::Yes => asked.asks.missing(question, &plans, &about),
            Said::No(_) => Vec::new(),
        };
        return Ok(AnsweredWave { wave: name.to_owned(), question, plans, commit: None, missing, unplanned });
    };
    let who: Person = by.to_string().parse().map_err(|error: policy::InvalidPerson| WaveError::NotAnApprover {
        wave: name.to_owned(),
        by: by.to_string(),
        why: error.to_string(),
    })?;
    let answer = match said {
        Said::Yes => WaveAnswer::Approve,
        Said::No(reason) => WaveAnswer::Reject { reason: reason.replace('\n', " ") },
    };
    let word = WaveWord {
        wave: name.to_owned(),
        question,
        answer,
        by: who,
        at: now,
        plans: plans.clone(),
        authors: written_by,
    };
    if let Some(why) = asked.asks.refusal(&word) {
        return Err(WaveError::NotAnApprover { wave: name.to_owned(), by: by.to_string(), why });
    }
    about.push(&word);
    let missing = match said {
        Said::Yes => asked.asks.missing(question, &plans, &about),
        Said::No(_) => Vec::new(),
    };
    let commit = record(planner, reading, &word, by, now)?;
    Ok(AnsweredWave { wave: name.to_owned(), question, plans, commit: Some(commit), missing, unplanned })
}

/// The clusters of a wave that have a plan, and why the others have none.
fn views(
    planner: &Planner,
    reading: &FleetReading,
    place: usize,
) -> (BTreeMap<ClusterName, ClusterView>, BTreeMap<ClusterName, String>) {
    let policy = &reading.fleet.policy;
    let (mut views, mut unplanned) = (BTreeMap::new(), BTreeMap::new());
    for cluster in reading.fleet.clusters.iter().filter(|cluster| policy.wave_of(&cluster.name) == Some(place)) {
        match planner.view(reading, &cluster.name) {
            Ok(view) => drop(views.insert(view.name.clone(), view)),
            Err(error) => {
                let name = cluster.name.parse::<ClusterName>();
                unplanned.extend(name.ok().map(|name| (name, error.to_string())));
            }
        }
    }
    (views, unplanned)
}

/// What is to be said of a wave now.
fn question(asked: &AskedWave, now: Timestamp) -> Result<WaveQuestion, WaveError> {
    let AskedWave { wave, members, asks, state } = asked;
    let not_now = |why: String| Err(WaveError::NotNow { wave: wave.name.clone(), why });
    let is_left = !asked_plans(wave, members, WaveQuestion::Before, now).is_empty();
    match (&asks.before, &asks.after) {
        (None, None) => Err(WaveError::NotAsked(wave.name.clone())),
        (Some(_), _) if is_left => Ok(WaveQuestion::Before),
        (_, None) => not_now("nothing of it is left to begin".to_owned()),
        (_, Some(_)) if asked_plans(wave, members, WaveQuestion::After, now).is_empty() => {
            not_now("nothing was rolled out in it yet".to_owned())
        }
        (_, Some(_)) => match state {
            WaveState::Unapproved(_) | WaveState::Done => Ok(WaveQuestion::After),
            WaveState::Soaking(until) => not_now(format!("it soaks until {until}")),
            WaveState::Stopped(reason) | WaveState::DoneWithExceptions(reason) => not_now(reason.message.clone()),
            WaveState::Ahead | WaveState::UnderWay => {
                let is_done = |standing: &Standing| matches!(standing, Standing::Done { .. });
                let left = members.iter().filter(|member| !is_done(&member.standing)).map(|it| it.cluster.as_str());
                not_now(format!(
                    "its result is approved once it is done, and {} is not",
                    left.collect::<Vec<_>>().join(", ")
                ))
            }
        },
    }
}

/// Writes what is said next to what was.
fn record(
    planner: &Planner,
    reading: &FleetReading,
    word: &WaveWord,
    by: &Identity,
    now: Timestamp,
) -> Result<CommitId, WaveError> {
    let failed = |why: String| WaveError::NotWritten { wave: word.wave.clone(), why };
    let signature = Signature::of(&reading.fleet.policy, planner.signing()).map_err(AnswerError::from)?;
    let policy = &reading.fleet.policy;
    let is_same = |known: &WaveWord| known.wave == word.wave && known.question == word.question;
    let mut words: Vec<WaveWord> = reading.wave_words.words.clone();
    words.retain(|known| policy.waves.iter().any(|wave| wave.name == known.wave));
    // Of what is void now nothing is kept.
    words.retain(|known| !is_same(known) || known.is_about(&word.plans));
    words.push(word.clone());
    let text = record_text(words).map_err(|error| failed(error.to_string()))?;
    let (verb, reason) = match &word.answer {
        WaveAnswer::Approve => ("approve", String::new()),
        WaveAnswer::Reject { reason } => ("reject", format!("{reason}\n\n")),
    };
    let what = match word.question {
        WaveQuestion::Before => "",
        WaveQuestion::After => " the result of",
    };
    let plans: String = word.plans.iter().map(|(cluster, plan)| format!("- {cluster}: {plan}\n")).collect();
    let draft = CommitDraft {
        parent: reading.deploy_head().cloned(),
        merges: None,
        prefix: signature.prefix.clone(),
        edits: [(record_path()?, Some(text))].into(),
        message: CommitMessage {
            subject: format!("{verb}{what} wave {}", word.wave),
            body: format!("{reason}Said of these plans:\n{plans}"),
            trailers: Vec::new(),
        },
        author: by.clone(),
        time: now,
        allow_empty: false,
    };
    Ok(write(planner, &reading.layout.branch, &draft, &signature)?)
}
