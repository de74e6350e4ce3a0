//! What watches have told of Flux: the last words of those Kustomizations and sources that somebody looks at.

use std::collections::{BTreeMap, BTreeSet};

use rollout::FluxObservation;

use super::Seen;
use super::word::{Word, word};
use crate::client::kind::KUSTOMIZATION;
use crate::read::observe::kind_of;
use rollout::FluxReference;

/// What was told of these Kustomizations and of their sources; none where something of it was not.
pub(super) fn told(seen: &Seen, kustomizations: &BTreeSet<FluxReference>) -> Option<FluxObservation> {
    let mut told = FluxObservation::default();
    let mut sources = BTreeMap::new();
    for reference in kustomizations {
        let Word::Kustomization(word, source) = word(seen, &KUSTOMIZATION, &reference.namespace, &reference.name)?
        else {
            return None;
        };
        told.kustomizations.push(word.clone());
        sources.extend(source.clone());
    }
    for (reference, kind) in sources {
        let Some(kind) = kind_of(&kind) else { continue };
        let Word::Source(word) = word(seen, kind, &reference.namespace, &reference.name)? else { return None };
        told.sources.push(word.clone());
    }
    told.name_commits();
    Some(told)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube::core::{ApiResource, DynamicObject};
    use serde_json::{Value, json};

    use super::*;
    use crate::client::kind::{GIT_REPOSITORY, Kind};
    use crate::watch::{ChangeScope, Changes, Filter, Interest, State, topic};

    /// Watches of Flux' objects for one cluster that looks at the Kustomization `capi`.
    struct Watched {
        state: State,
        changes: Arc<Changes>,
    }

    impl Watched {
        fn new() -> Self {
            Self::of(ChangeScope::Flux)
        }

        fn of(extent: ChangeScope) -> Self {
            let mut state = State::default();
            let mut interest = Interest::default();
            interest.add(KUSTOMIZATION.resource("v1"), Filter::named([("flux-system", "capi")]), extent);
            interest.add(GIT_REPOSITORY.resource("v1"), Filter::All, extent);
            state.interests.set("prod", interest);
            Self { state, changes: Arc::default() }
        }

        fn applied(&mut self, kind: &Kind, name: &str, more: Value) {
            let resource = kind.resource("v1");
            let object = object(&resource, name, more);
            self.state.applied(&topic(&resource), &resource, &object, &self.changes);
        }

        fn deleted(&mut self, kind: &Kind, name: &str) {
            let resource = kind.resource("v1");
            self.state.deleted(&topic(&resource), &object(&resource, name, json!({})), &self.changes);
        }

        /// Which commit was fetched and which applied, as far as it was told.
        fn told(&self, name: &str) -> Option<[Option<String>; 2]> {
            let reference = FluxReference { namespace: "flux-system".to_owned(), name: name.to_owned() };
            let told = told(&self.state.seen, &BTreeSet::from([reference]))?;
            let [source] = told.sources.as_slice() else { panic!("{told:?}") };
            let [kustomization] = told.kustomizations.as_slice() else { panic!("{told:?}") };
            let commits = [&source.artifact_revision, &kustomization.last_applied_revision];
            Some(commits.map(|commit| commit.as_ref().map(|commit| commit.as_str()[..2].to_owned())))
        }
    }

    fn object(resource: &ApiResource, name: &str, more: Value) -> DynamicObject {
        DynamicObject::new(name, resource).within("flux-system").data(more)
    }

    fn kustomization(applied: &str) -> Value {
        json!({"spec": {"sourceRef": {"kind": "GitRepository", "name": "fleet"}},
            "status": {"lastAppliedRevision": format!("deploy@sha1:{}", applied.repeat(20))}})
    }

    fn source(fetched: &str) -> Value {
        json!({"status": {"artifact": {"revision": format!("deploy@sha1:{}", fetched.repeat(20))}}})
    }

    #[test]
    fn the_last_words_of_what_somebody_looks_at_are_kept_with_those_of_its_source() {
        let mut watched = Watched::new();
        watched.applied(&KUSTOMIZATION, "capi", kustomization("aa"));
        assert_eq!(watched.told("capi"), None, "its source was not told of");
        watched.applied(&GIT_REPOSITORY, "fleet", source("aa"));
        watched.applied(&KUSTOMIZATION, "other", kustomization("aa"));
        let both = |fetched: &str, applied: &str| Some([fetched, applied].map(|commit| Some(commit.to_owned())));
        assert_eq!((watched.told("capi"), watched.told("other")), (both("aa", "aa"), None));
        watched.applied(&GIT_REPOSITORY, "fleet", source("bb"));
        assert_eq!(watched.told("capi"), both("bb", "aa"));
        watched.applied(&KUSTOMIZATION, "capi", kustomization("bb"));
        assert_eq!(watched.told("capi"), both("bb", "bb"));
        watched.deleted(&GIT_REPOSITORY, "fleet");
        assert_eq!(watched.told("capi"), None);
    }

    #[test]
    fn a_cluster_at_rest_is_told_of_failures_and_of_their_end_alone() {
        let ready = |status: &str, reason: &str, message: &str| {
            let mut object = kustomization("aa");
            object["status"]["conditions"] =
                json!([{"type": "Ready", "status": status, "reason": reason, "message": message}]);
            object
        };
        let mut watched = Watched::of(ChangeScope::Failure);
        for (object, is_told) in [
            (ready("True", "ReconciliationSucceeded", "applied aa"), true),
            // It is reconciled at its interval.
            (ready("Unknown", "Progressing", "in progress"), false),
            (ready("True", "ReconciliationSucceeded", "applied bb"), false),
            (ready("False", "ReconciliationFailed", "denied"), true),
            // It is tried again, and fails again.
            (ready("Unknown", "Progressing", "in progress"), false),
            (ready("False", "ReconciliationFailed", "denied"), false),
            (ready("False", "ReconciliationFailed", "denied by another one"), true),
            (ready("Unknown", "Progressing", "in progress"), false),
            (ready("True", "ReconciliationSucceeded", "applied aa"), true),
        ] {
            watched.applied(&KUSTOMIZATION, "capi", object.clone());
            let told = watched.changes.take();
            assert_eq!(told.get("prod").copied(), is_told.then_some(ChangeScope::Failure), "{object}");
        }
        let mut suspended = ready("True", "ReconciliationSucceeded", "applied aa");
        suspended["spec"]["suspend"] = json!(true);
        watched.applied(&KUSTOMIZATION, "capi", suspended);
        assert_eq!(watched.changes.take().len(), 1);
        watched.deleted(&KUSTOMIZATION, "capi");
        assert_eq!(watched.changes.take().len(), 1);
    }

    #[test]
    fn what_nobody_looks_at_any_more_is_not_kept_up_to_date_and_so_not_at_all() {
        let mut watched = Watched::new();
        watched.applied(&GIT_REPOSITORY, "fleet", source("aa"));
        watched.applied(&KUSTOMIZATION, "capi", kustomization("aa"));
        watched.state.interests.remove("prod");
        watched.applied(&KUSTOMIZATION, "capi", kustomization("bb"));
        assert_eq!(watched.told("capi"), None);
    }
}
