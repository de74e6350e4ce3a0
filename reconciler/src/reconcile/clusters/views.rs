//! The views of a fleet's clusters, made anew only where something they follow from has changed.

use std::sync::{Arc, PoisonError};

use domain::ClusterName;
use overlays::{ClusterSpec, Management};
use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};

use crate::reconcile::planner::{ClusterView, FleetReading, PlanError};
use crate::reconcile::{Controller, Eksa, KnownView, StateKey, ViewKey};
use planning::eks_way_back;

/// How a view is kept for which there is no room.
#[derive(Clone, Copy, Debug)]
enum Room {
    /// Not at all.
    AsThereIs,
    /// Until its cluster has had its turn.
    ForItsTurn,
}

impl Controller {
    /// What git says of a cluster now; none for one that has no plan.
    pub(in crate::reconcile) fn state(reading: &FleetReading, cluster: &ClusterSpec) -> Option<StateKey> {
        let eksa = match &cluster.management {
            Management::SelfManaged | Management::Undeclared => Eksa::Fleet(Arc::clone(&reading.deployed.eksa)),
            Management::ManagedBy(manager) => {
                let manager = manager.parse::<ClusterName>().ok();
                Eksa::Manager(manager.and_then(|manager| reading.deployed.eksa.get(&manager).cloned()))
            }
        };
        // What cannot be read may change without any id that is known here.
        let readable = reading.deployed.unreadable.is_empty();
        let inputs = reading.source.inputs(&cluster.name).filter(|_| readable)?;
        Some(StateKey { inputs, directory: reading.deployed.ids(&cluster.name), eksa })
    }

    /// Makes the views that are not at hand, on as many threads as there are processors: rendering is all that takes long.
    ///
    /// One for which there is no room is kept until its cluster has had its turn, so whoever calls this asks for a few at a time. What goes wrong with
    /// one is found again, and told, when its cluster has its turn.
    pub(in crate::reconcile) fn make_views(&self, reading: &FleetReading, clusters: &[&ClusterSpec]) {
        let stale = |cluster: &&&ClusterSpec| {
            let state = Self::state(reading, cluster);
            let name = cluster.name.parse::<ClusterName>();
            state.is_none() || name.is_ok_and(|name| !self.knows(&name, state.as_ref()))
        };
        let work: Vec<&ClusterSpec> = clusters.iter().filter(stale).copied().collect();
        // What is alone is made when it is asked for.
        if work.len() < 2 {
            return;
        }
        work.into_par_iter().for_each(|cluster| {
            if let Err(error) = self.view_with_room(reading, cluster, Room::ForItsTurn) {
                tracing::debug!(cluster.name = %cluster.name, %error, "no view yet");
            }
        });
    }

    /// Whether nothing has to be rendered for a cluster in that state.
    fn knows(&self, cluster: &ClusterName, state: Option<&StateKey>) -> bool {
        let now = self.clock.now();
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.get(cluster).is_some_and(|memory| {
            let known = memory.view.as_ref().filter(|known| known.holds(now));
            let view = known.map(|known| &known.key.state);
            state.is_some() && (view == state || memory.done.as_ref() == state)
        })
    }

    /// The view of a cluster.
    pub(in crate::reconcile) fn current_view(
        &self,
        reading: &FleetReading,
        cluster: &ClusterSpec,
    ) -> Result<Arc<ClusterView>, PlanError> {
        self.view_with_room(reading, cluster, Room::AsThereIs)
    }

    fn view_with_room(
        &self,
        reading: &FleetReading,
        cluster: &ClusterSpec,
        room: Room,
    ) -> Result<Arc<ClusterView>, PlanError> {
        // Of before the view is made, so that one that is made while its time ends is made once more.
        let now = self.clock.now();
        let source = reading.source_commit().clone();
        let key = Self::state(reading, cluster).map(|state| ViewKey {
            state,
            source: source.clone(),
            deploy: reading.deploy_head().cloned(),
        });
        let name = cluster.name.parse::<ClusterName>().ok();
        let known = name.as_ref().and_then(|name| self.memory(name).view).filter(|known| {
            let same = key.as_ref().is_some_and(|key| key.state == known.key.state);
            same && known.holds(now) && (!known.view.reaches_far || known.key.source == source)
        });
        let known = known.map(|known| (known.key, known.view));
        let view = match known {
            Some((known, view)) if Some(&known) == key.as_ref() => return Ok(view),
            Some((known, view)) => {
                let moved = known.deploy.as_ref() != reading.deploy_head();
                let view = if moved { self.planner.view_at_head(reading, &view)? } else { Some(view.as_ref().clone()) };
                view.map(|view| if known.source == source { view } else { view.at_source(&source) })
            }
            None => None,
        };
        let view = Arc::new(match view {
            Some(view) => view,
            None => self.planner.view(reading, &cluster.name)?,
        });
        self.stands(&view.name, view.progress());
        let way_back = view.directory.ledger().and_then(|ledger| eks_way_back(&view.cluster, ledger, now));
        let until = way_back.and_then(|way_back| way_back.until);
        self.remember(&view.name, |memory| {
            // First what was there is let go.
            memory.view = None;
            memory.view = key.and_then(|key| {
                let bytes = view.bytes();
                let (charge, is_for_its_turn) = match (self.views.take(bytes), room) {
                    (Some(charge), _) => (charge, false),
                    (None, Room::ForItsTurn) => (self.views.claim(bytes), true),
                    (None, Room::AsThereIs) => return None,
                };
                Some(KnownView { key, view: Arc::clone(&view), until, is_for_its_turn, _charge: Arc::new(charge) })
            });
        });
        Ok(view)
    }
}
