//! Creating, changing, applying and deleting an object.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::fields::{Managers, Writer};
use crate::object::{ENDING, asked_for, empty, finalizers, is_ending, patched, set, what_is_wrong, without_empty};
use crate::objects::{Key, Objects};
use crate::reply::Reply;
use crate::request::{Parameters, Place};

/// How an existing object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// By a whole object.
    Replace,
    /// By a JSON merge patch (RFC 7386).
    Merge,
    /// By a configuration that is applied on the server's side.
    Apply,
}

/// A write under way.
pub(crate) struct Write<'a> {
    pub(crate) objects: &'a mut Objects,
    pub(crate) place: &'a Place<'a>,
    pub(crate) parameters: &'a Parameters,
    pub(crate) now: Timestamp,
    pub(crate) is_dry_run: bool,
    /// Whether the namespace that it is written in is there.
    pub(crate) exists: bool,
}

impl Write<'_> {
    pub(crate) fn get(&self, name: &str) -> Result<Reply, Reply> {
        let found = self.objects.get(&self.key(name));
        found.map(|object| Reply::ok((**object).clone())).ok_or_else(|| Reply::not_found(self.place.kind, name))
    }

    pub(crate) fn create(&mut self, body: &Value) -> Result<Reply, Reply> {
        let kind = self.place.kind;
        let object = self.proper(body)?;
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        self.require_namespace()?;
        if name.is_empty() {
            return Err(Reply::no_name(kind));
        }
        let key = self.key(&name);
        // What would replace something that is not there may say which; and as a dry run it is not looked at.
        let is_replacing = self.place.name.is_some();
        let revision = object["metadata"].get("resourceVersion").cloned();
        if revision.is_some() && !is_replacing && !self.is_dry_run {
            return Err(Reply::unexpected("resourceVersion should not be set on objects to be created"));
        }
        if let Some(there) = self.objects.get(&key) {
            return Err(Reply::already_exists(kind, &name, is_ending(there)));
        }
        let mut object = self.begun(object);
        set(&mut object["metadata"], "resourceVersion", revision.filter(|_| self.is_dry_run).as_ref());
        let managers =
            Managers::default().after_change(self.writer(false), &empty(self.place.kind), &object, &self.time());
        Ok(Reply::created(self.keep(&key, object, &managers)))
    }

    pub(crate) fn change(&mut self, change: Change, name: &str, body: &Value) -> Result<Reply, Reply> {
        let kind = self.place.kind;
        let key = self.key(name);
        let Some(before) = self.objects.get(&key).cloned() else {
            return match change {
                Change::Apply if !self.place.is_status => self.apply_anew(&key, body),
                Change::Replace if kind.is_created_by_replacing() => self.create(body),
                Change::Apply | Change::Merge | Change::Replace => Err(Reply::not_found(kind, name)),
            };
        };
        let (mut after, managers) = match change {
            Change::Apply => self.applied(&before, body)?,
            Change::Merge => (patched(&before, body), None),
            Change::Replace => (self.proper(body)?, None),
        };
        let given = after["metadata"].get("resourceVersion").cloned().unwrap_or_default();
        let is_given = given.as_str().is_some_and(|given| !given.is_empty());
        if !is_given && change == Change::Replace && !kind.may_be_replaced_unconditionally() {
            return Err(Reply::no_revision(kind, name));
        }
        if is_given && given != before["metadata"]["resourceVersion"] {
            return Err(Reply::modified(kind, name));
        }
        let sent = after["metadata"].clone();
        let is_null = |name: &&&str| kind.is_custom() && sent.get(**name).is_some_and(Value::is_null);
        let nulls: Vec<&str> = ["labels", "annotations", "finalizers"].iter().filter(is_null).copied().collect();
        self.keep_what_is_not_written(&before, &mut after);
        let causes = what_is_wrong(&before, &after);
        if !causes.is_empty() {
            return Err(Reply::not_valid(kind, name, &causes));
        }
        let managers = managers.unwrap_or_else(|| {
            let managers = Managers::of(&before);
            if managers.is_empty() {
                return managers;
            }
            // Who replaces an object without saying when it ends takes that from its owner, though it ends all the same.
            let mut compared = after.clone();
            for name in ENDING.iter().filter(|_| !self.place.is_status) {
                set(&mut compared["metadata"], name, sent.get(name));
            }
            managers.after_change(self.writer(false), &before, &compared, &self.time())
        });
        if kind.counts_generations() && asked_for(kind, &before) != asked_for(kind, &after) {
            after["metadata"]["generation"] = json!(before["metadata"]["generation"].as_u64().unwrap_or_default() + 1);
        }
        managers.write_to(&mut after);
        if after == *before && !self.objects.has_nulls(&key) {
            return Ok(Reply::ok(after));
        }
        if is_ending(&after) && finalizers(&after).is_empty() {
            nulls.iter().for_each(|name| set(&mut after["metadata"], name, Some(&Value::Null)));
            return Ok(Reply::ok(self.remove(&key, after)));
        }
        let kept = self.keep(&key, after, &managers);
        if !nulls.is_empty() && !self.is_dry_run {
            self.objects.note_nulls(&key);
        }
        Ok(Reply::ok(kept))
    }

    pub(crate) fn delete(&mut self, name: &str, options: &Value) -> Result<Reply, Reply> {
        // The parameters of the path are not looked at where there is a body.
        self.is_dry_run = if options.is_null() { self.is_dry_run } else { options["dryRun"] == json!(["All"]) };
        let kind = self.place.kind;
        let key = self.key(name);
        let before = self.objects.get(&key).cloned().ok_or_else(|| Reply::not_found(kind, name))?;
        let metadata = &before["metadata"];
        let differs = |field: &str| {
            let wanted = options["preconditions"][field].as_str()?;
            let found = metadata[field].as_str().unwrap_or_default();
            (wanted != found).then(|| (wanted.to_owned(), found.to_owned()))
        };
        if let Some((wanted, found)) = differs("uid") {
            let why = format!(
                "the UID in the precondition ({wanted}) does not match the UID in record ({found}). The object might have been deleted and then recreated"
            );
            return Err(Reply::another(kind, name, &why));
        }
        if let Some((wanted, found)) = differs("resourceVersion") {
            let why = format!(
                "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({found}). The object might have been modified"
            );
            return Err(Reply::another(kind, name, &why));
        }
        if finalizers(&before).is_empty() {
            let object = (*before).clone();
            let uid = object["metadata"]["uid"].clone();
            self.remove(&key, object);
            return Ok(Reply::deleted(kind, name, &uid));
        }
        let mut object = (*before).clone();
        if is_ending(&object) {
            if !self.objects.has_nulls(&key) {
                return Ok(Reply::ok(object));
            }
            let managers = Managers::of(&object);
            return Ok(Reply::ok(self.keep(&key, object, &managers)));
        }
        object["metadata"]["deletionTimestamp"] = json!(self.time());
        object["metadata"]["deletionGracePeriodSeconds"] = json!(0);
        if let Some(generation) = object["metadata"]["generation"].as_u64() {
            object["metadata"]["generation"] = json!(generation + 1);
        }
        let managers = Managers::of(&object);
        Ok(Reply::ok(self.keep(&key, object, &managers)))
    }

    fn apply_anew(&mut self, key: &Key, body: &Value) -> Result<Reply, Reply> {
        let configuration = self.configuration(body)?;
        self.require_namespace()?;
        let nothing = json!({});
        let applied = Managers::default().after_apply(self.writer(true), &nothing, &configuration, false, &self.time());
        let (object, managers) = applied.map_err(|conflicts| refused(&conflicts))?;
        let object = self.begun(object);
        Ok(Reply::created(self.keep(key, object, &managers)))
    }

    fn applied(&self, before: &Value, body: &Value) -> Result<(Value, Option<Managers>), Reply> {
        let configuration = self.configuration(body)?;
        let force = self.parameters.is("force");
        let mut managers = Managers::of(before);
        if managers.is_empty() {
            // What was there before is somebody's too.
            let somebody = Writer { manager: "before-first-apply".to_owned(), ..self.writer(false) };
            let mut there = before.clone();
            if self.place.kind.has_status() {
                set(&mut there, "status", None);
            }
            managers = managers.after_change(somebody, &empty(self.place.kind), &there, &self.time());
        }
        let applied = managers.after_apply(self.writer(true), before, &configuration, force, &self.time());
        applied.map(|(object, managers)| (object, Some(managers))).map_err(|conflicts| refused(&conflicts))
    }

    fn require_namespace(&self) -> Result<(), Reply> {
        let missing = self.place.namespace.as_ref().filter(|_| !self.exists);
        missing.map_or(Ok(()), |namespace| Err(Reply::no_namespace(namespace)))
    }

    /// What is applied of an object that was sent: what is written by another path is nobody's.
    fn configuration(&self, body: &Value) -> Result<Value, Reply> {
        let mut configuration = self.proper(body)?;
        if self.place.kind.has_status() && !self.place.is_status {
            set(&mut configuration, "status", None);
        }
        Ok(configuration)
    }

    /// A whole object as it was sent, which says what the path says.
    fn proper(&self, body: &Value) -> Result<Value, Reply> {
        let kind = self.place.kind;
        let mut object = body.clone();
        let given = object["metadata"]["namespace"].as_str().unwrap_or_default();
        match &self.place.namespace {
            Some(namespace) if !given.is_empty() && given != namespace => {
                let message = "the namespace of the provided object does not match the namespace sent on the request";
                return Err(Reply::bad_request(message));
            }
            Some(namespace) => object["metadata"]["namespace"] = json!(namespace),
            None => {}
        }
        if let Some(name) = &self.place.name {
            let given = object["metadata"]["name"].as_str().unwrap_or_default();
            if !given.is_empty() && given != name {
                let message = format!("the name of the object ({given}) does not match the name on the URL ({name})");
                return Err(Reply::bad_request(&message));
            }
            object["metadata"]["name"] = json!(name);
        }
        object["apiVersion"] = json!(kind.api_version());
        object["kind"] = json!(kind.kind);
        Ok(object)
    }

    /// What the server says of an object that was not there before.
    fn begun(&mut self, mut object: Value) -> Value {
        let kind = self.place.kind;
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.retain(|name, _| !["generation", "resourceVersion"].iter().chain(ENDING).any(|ours| ours == name));
            metadata.insert("uid".to_owned(), json!(self.objects.identity()));
            metadata.insert("creationTimestamp".to_owned(), json!(self.time()));
            if kind.counts_generations() {
                metadata.insert("generation".to_owned(), json!(1));
            }
        }
        if let Some(fields) = object.as_object_mut().filter(|_| kind.has_status()) {
            fields.remove("status");
        }
        without_empty(kind, &mut object);
        object
    }

    /// Some fields are the server's, and some are written by another path than this one.
    fn keep_what_is_not_written(&self, before: &Value, after: &mut Value) {
        const OURS: &[&str] = &["name", "namespace", "uid", "creationTimestamp", "generation", "resourceVersion"];
        if self.place.is_status {
            let status = after.get("status").cloned();
            *after = before.clone();
            set(after, "status", status.as_ref());
            return;
        }
        for name in OURS.iter().chain(ENDING) {
            set(&mut after["metadata"], name, before["metadata"].get(name));
        }
        for name in ["apiVersion", "kind"] {
            set(after, name, before.get(name));
        }
        if self.place.kind.has_status() {
            set(after, "status", before.get("status"));
        }
        without_empty(self.place.kind, after);
    }

    /// Keeps an object, and gives it as it is kept. As a dry run it is only given.
    fn keep(&mut self, key: &Key, mut object: Value, managers: &Managers) -> Value {
        managers.write_to(&mut object);
        if self.is_dry_run {
            return object;
        }
        let kept = self.objects.put(key, Some(object));
        kept.map(|object| (*object).clone()).unwrap_or_default()
    }

    /// Removes an object, and gives it as it was last.
    fn remove(&mut self, key: &Key, object: Value) -> Value {
        if !self.is_dry_run {
            self.objects.put(key, None);
        }
        object
    }

    fn key(&self, name: &str) -> Key {
        Key {
            resource: self.place.kind.resource(),
            namespace: self.place.namespace.clone().unwrap_or_default(),
            name: name.to_owned(),
        }
    }

    fn writer(&self, applies: bool) -> Writer {
        Writer {
            manager: self.parameters.manager().to_owned(),
            applies,
            api_version: self.place.kind.api_version(),
            subresource: if self.place.is_status { "status".to_owned() } else { String::new() },
        }
    }

    fn time(&self) -> String {
        self.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }
}

fn refused(conflicts: &crate::fields::Conflicts) -> Reply {
    let (message, causes) = conflicts.told();
    Reply::field_conflicts(&message, &causes)
}
