//! What a process of the play knows, plans and decides.

use super::*;

impl Play {
    /// The source commits that the cluster was at before its rollout, if one runs, and that it was committed from last.
    pub(super) fn at(&self, length: usize) -> Vec<usize> {
        let ledger = &self.states[length - 1].ledger;
        let is_earlier =
            |state: &&Deployed| state.ledger.rollout != ledger.rollout || state.ledger.state != LedgerState::Running;
        let base = match ledger.state {
            LedgerState::Running => {
                self.states[..length].iter().rev().find(is_earlier).map(|state| &state.ledger.source)
            }
            LedgerState::Done | LedgerState::Superseded => None,
        };
        let place = |source: &CommitId| self.sources.iter().position(|known| known.id == *source).unwrap();
        base.into_iter().chain([&ledger.source]).map(place).collect()
    }

    /// The policies of before, by a state of the deploy branch.
    pub(super) fn befores(&self, length: usize) -> Befores {
        let mut befores = Befores::default();
        for place in self.at(length) {
            let source = &self.sources[place.max(self.trusted)];
            if befores.known.iter().all(|known| known.commit != source.id) {
                befores.known.push(Before { commit: source.id.clone(), policy: Arc::clone(&source.policy) });
            }
        }
        befores
    }

    /// The plan of a source commit, judged by the newest policy and those of before.
    pub(super) fn plan_of(
        &self,
        source: usize,
        newest: &Policy,
        befores: &Befores,
        state: &Deployed,
        edit: bool,
    ) -> Plan {
        let Source { id, wanted, policy, .. } = &self.sources[source];
        let mut wanted = wanted.clone();
        if edit && let Some((stage, version)) = &self.edit {
            wanted.insert(stage.clone(), *version);
        }
        let mut input = self.cluster.plan_input(id, &state.parts, &wanted, Some(state.ledger.clone()));
        input.policy = befores.plan_policy(policy, newest, "mgmt");
        let allowed = befores.fetch_allow(newest);
        let is_required = befores.signatures(newest) == Signatures::Require;
        for stage in &mut input.stages {
            let (name, text) = (stage.stage.name.clone(), stage.stage.to_string());
            let (before, after) = (state.parts[&name], wanted[&name]);
            stage.policy = StagePolicy {
                soak: self.cluster.policy.soak,
                timeout: self.cluster.policy.timeout,
                ..befores.stage_policy(policy, newest, "mgmt", &text)
            };
            if before != after {
                let class = if after < before { ChangeClass::Downgrade } else { ChangeClass::Minor };
                stage.changes = vec![ComponentChange {
                    component: text,
                    class,
                    old_version: Some(before.to_string()),
                    new_version: Some(after.to_string()),
                    artifacts: Vec::new(),
                }];
                let host = host(after).filter(|host| !allowed.iter().any(|known| known == host));
                let unsigned = (is_required && !is_signed(after)).then(|| "it is not signed".to_owned());
                let message = host.map(|host| format!("{host} is not allowed")).or(unsigned);
                stage.render_error = message.map(|message| RenderFailure { message, help: String::new() });
            }
        }
        plan(input)
    }

    pub(super) fn decided(&self, seen: &Seen) -> Decided {
        let (newest, state) = (&self.sources[seen.source], &self.states[seen.length - 1]);
        let befores = self.befores(seen.length);
        let mut plan = self.plan_of(seen.source, &newest.policy, &befores, state, false);
        // What people changed of what is proposed becomes what is proposed, where the policy says so.
        let takes_up = plan.next_stage().is_some_and(|next| {
            next.policy.accept_edits && self.edit.as_ref().is_some_and(|(stage, _)| *stage == next.stage.name)
        });
        if takes_up {
            plan = self.plan_of(seen.source, &newest.policy, &befores, state, true);
        }
        let ledger = &state.ledger;
        let other = ledger.state == LedgerState::Running && !plan.running;
        let running = other.then(|| {
            let own = self.sources.iter().position(|source| source.id == ledger.source).unwrap();
            let edited = self.plan_of(own, &newest.policy, &befores, state, true);
            if edited.digest == ledger.plan {
                edited
            } else {
                self.plan_of(own, &newest.policy, &befores, state, false)
            }
        });
        let roster = roster_since(&newest.policy, &befores);
        let plans = || [Some(&plan), running.as_ref()].into_iter().flatten();
        let asks = plans().flat_map(|plan| &plan.stages).any(|stage| approval_scope(stage).is_some());
        let pushed = Pushed { commit: &newest.id, policy: &newest.policy, moved: None };
        let unconfirmed = confirmations(&pushed, &befores, "mgmt", asks);
        let pause = |place: &str| rollout::Pause { place: place.to_owned(), reason: None, help: None, until: None };
        let paused = if newest.policy.is_paused("mgmt", Timestamp::UNIX_EPOCH) {
            Some(pause("stepgate.yaml"))
        } else {
            befores.pausing("mgmt", Timestamp::UNIX_EPOCH).map(|_| pause("stepgate.yaml of before"))
        };
        let mut approvals = Vec::new();
        for plan in plans() {
            let Some(next) = plan.next_stage() else { continue };
            let Some(scope) = approval_scope(next) else { continue };
            let facts = self.facts(seen, &befores, plan, &next.stage);
            approvals.push(ApprovalRecord {
                scope,
                plan: plan.digest.clone(),
                state: ApprovalState::Pending,
                by: None,
                place: None,
                facts,
            });
        }
        let mut people = People { roster, ..People::default() };
        if let Some(approved) = ledger.approvals.last().filter(|_| ledger.state == LedgerState::Running)
            && let ApprovalScope::Stage(stage) = &approved.scope
            && let Some(own) = plans().find(|plan| plan.digest == approved.plan)
        {
            people.landed.push(ApprovalRecord {
                scope: approved.scope.clone(),
                plan: approved.plan.clone(),
                state: ApprovalState::Approved,
                by: None,
                place: None,
                facts: self.facts(seen, &befores, own, stage),
            });
        }
        if ledger.state == LedgerState::Running && plan.digest != ledger.plan {
            let own = self.sources.iter().position(|source| source.id == ledger.source).unwrap();
            let moved = self.sources[own..=seen.source].iter().find(|source| source.wanted != self.sources[own].wanted);
            people.source_moved_at = moved.map(|source| source.at);
        }
        let deploy: DeployHead = self.head.commits().into_iter().take(seen.length).collect();
        let policies = std::iter::once(&newest.policy).chain(befores.known.iter().map(|before| &before.policy));
        let policies = policies.cloned().collect();
        let world = World {
            plan: Arc::new(plan),
            running: running.map(Arc::new),
            ledger: Some(Arc::new(ledger.clone())),
            deploy: Arc::new(deploy),
            observation: Some(Arc::new(seen.observation.clone())),
            rest: None,
            history: GateHistory::default(),
            paused,
            unconfirmed,
            foreign_change: None,
            prerequisites: Vec::new(),
            wave: None,
            approvals,
            people,
        };
        Decided { world, policies, befores }
    }

    /// What the rules look at, as a process reads it: of the forge that the newest policy names, or of commits where neither that nor any before
    /// names one.
    pub(super) fn facts(&self, seen: &Seen, befores: &Befores, plan: &Plan, stage: &StageId) -> ApprovalFacts {
        let newest = &self.sources[seen.source].policy;
        let key = (plan.digest.clone(), stage.clone());
        let has_forge = newest.forge.is_some() || befores.of(Field::Forge).any(|before| before.policy.forge.is_some());
        let names: BTreeSet<String> = match &newest.forge {
            Some(forge) if is_the_teams(forge) => self.on_forge.get(&key).cloned().unwrap_or_default(),
            Some(_) => ["alice", "bob", "mallory"].map(str::to_owned).into(),
            None if has_forge => BTreeSet::new(),
            None => self.by_commit.get(&key).cloned().unwrap_or_default(),
        };
        let given = |name: &String| GivenApproval {
            who: name.parse().unwrap(),
            plan: plan.digest.clone(),
            at: None,
            means: Means::Comment,
        };
        let owns = |owner: &str| OwningEntry {
            entry: format!("`*` {owner}"),
            wanted: 1,
            owners: vec![Owner::Person(owner.parse().unwrap())],
        };
        let (now, before) = self.owners(seen.length);
        let mut owners = vec![owns(now)];
        owners.extend(befores.asks_owners("mgmt").then(|| owns(before)));
        ApprovalFacts {
            given: names.iter().map(given).collect(),
            authors: self.authors(seen).iter().map(|name| name.parse().unwrap()).collect(),
            owners: Ok(owners),
            ..ApprovalFacts::default()
        }
    }

    /// Who owns it, by the file as it is and as it was at the last commit of the cluster.
    pub(super) fn owners(&self, length: usize) -> (&'static str, &'static str) {
        let states = &self.states[..length];
        (states[length - 1].owner, states.iter().rev().find(|state| state.is_own).unwrap().owner)
    }

    /// Who wrote what is asked for since what the cluster was at.
    pub(super) fn authors(&self, seen: &Seen) -> BTreeSet<String> {
        let from = self.at(seen.length)[0];
        let wrote = self.sources[from + 1..=seen.source.max(from)].iter().filter_map(|source| source.author);
        wrote.map(str::to_owned).collect()
    }
}
