//! Announcements of a running controller: read and told beside the passes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::sync::watch::{Receiver, Sender, channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::cli::common::error::CommandError;
use crate::reconcile::announce::Announcer;
use crate::reconcile::main_loop::clock::{Clock as _, SystemClock};
use crate::reconcile::{Controller, ReconcileReport};
use crate::telemetry::Metrics;
use stepgate_notify::{Happened, Notifier, Silencer, Sinks};

/// Who is told of rollouts.
#[derive(Debug, Args)]
pub struct AnnouncementArguments {
    /// Folder of the sinks that `announce` in stepgate.yaml names: a file `NAME.yaml` each, and the files with secrets that these name. Without
    /// it nothing is announced.
    #[arg(long, env = "STEPGATE_SINKS", value_name = "DIR")]
    sinks: Option<PathBuf>,
    /// File that keeps what is still to be announced, and what was: it has to outlast the process.
    #[arg(long, env = "STEPGATE_ANNOUNCEMENTS", default_value = "stepgate-announcements.json", value_name = "FILE")]
    announcements: PathBuf,
}

impl AnnouncementArguments {
    /// The sinks that are named; none where nothing is announced.
    ///
    /// # Errors
    /// When a file of the folder says something that is not understood.
    pub(crate) fn read(&self) -> Result<Option<Telling>, CommandError> {
        let Some(folder) = &self.sinks else { return Ok(None) };
        let sinks = Sinks::read(folder).map_err(|error| CommandError::new(error.to_string()))?;
        Ok(Some(Telling { sinks, file: self.announcements.clone() }))
    }
}

/// Announcements that may be told: whatever they need was found.
pub struct Telling {
    sinks: Sinks,
    file: PathBuf,
}

/// What a pass came to, and where what has happened is read.
pub(super) type Announced = Option<(Arc<ReconcileReport>, Announcer)>;

/// Tells what there is to tell of each pass that is sent here, beside the passes.
///
/// # Errors
/// When what was told before cannot be read.
pub(super) fn announce(
    telling: Option<Telling>,
    controller: &Controller,
    metrics: &Arc<Metrics>,
) -> Result<(Sender<Announced>, Vec<JoinHandle<()>>), CommandError> {
    let (sender, passes) = channel(None);
    let Some(Telling { sinks, file }) = telling else { return Ok((sender, Vec::new())) };
    for name in sinks.names() {
        tracing::info!(sink = %name, "announcements may be told by `{name}`");
    }
    let silencer = Silencer::of(&sinks);
    let silencing = silencer.map(|silencer| tokio::spawn(silence(silencer, sender.subscribe())));
    let metrics = Arc::clone(metrics);
    let count = Arc::new(move |sink: &str, result| metrics.announced(sink, result));
    let mut notifier = Notifier::open(sinks, &file, count).map_err(|error| CommandError::new(error.to_string()))?;
    if notifier.head().is_none() {
        // Written down before anything is done: a process that is killed early has lost nothing either.
        match controller.begin_announcing() {
            Ok(head) => notifier.note(Happened { head, ..Happened::default() }, SystemClock.now()),
            Err(error) => tracing::warn!(%error, "announcements begin when the fleet can be read"),
        }
    }
    Ok((sender, [tokio::spawn(tell(notifier, passes))].into_iter().chain(silencing).collect()))
}

async fn tell(mut notifier: Notifier, mut passes: Receiver<Announced>) {
    let mut told = false;
    loop {
        tokio::select! {
            changed = passes.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            () = notifier.deliver() => continue,
        }
        let Some((pass, announcer)) = passes.borrow_and_update().clone() else { continue };
        let since = notifier.head().cloned();
        let read = tokio::task::spawn_blocking(move || announcer.happened(since.as_ref(), &pass)).await;
        match read {
            Ok(Ok(happened)) => {
                told = false;
                notifier.note(happened, SystemClock.now());
            }
            Ok(Err(error)) if !std::mem::replace(&mut told, true) => {
                tracing::warn!(%error, "what is to be announced could not be read; it is read after a later pass");
            }
            Ok(Err(_)) | Err(_) => {}
        }
    }
}

/// How soon silences are looked at again: well before one that lasts a quarter of an hour ends, and soon where that failed.
const RENEW: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_secs(10);

/// Holds silences for what each pass says is rolled out. Nobody waits for it, and it ends with this process: so do they, a little later.
async fn silence(mut silencer: Silencer, mut passes: Receiver<Announced>) {
    let mut rest = RENEW;
    loop {
        if let Ok(Err(_)) = timeout(rest, passes.changed()).await {
            return;
        }
        let Some((pass, announcer)) = passes.borrow_and_update().clone() else { continue };
        let read = tokio::task::spawn_blocking(move || announcer.rolled(&pass)).await;
        let is_held = match read {
            Ok(Ok(rolled)) => silencer.hold(&rolled, SystemClock.now()).await,
            Ok(Err(_)) | Err(_) => false,
        };
        rest = if is_held { RENEW } else { AGAIN };
    }
}
