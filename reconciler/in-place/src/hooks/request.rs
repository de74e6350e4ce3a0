//! What Cluster API asks.

use serde::Deserialize;
use serde_json::Value;

use super::Hook;

/// The annotation by which machines are upgraded in place, and the choice for what cannot be: `hold` or `replace`.
/// Machines without it are replaced, as they are without the extension.
pub const ON_DECLINE: &str = "inplace.stepgate.dev/on-decline";

/// What happens to a machine that cannot be upgraded in place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDecline {
    /// Nothing: its owner waits, and says why.
    #[default]
    Hold,
    /// It is replaced.
    Replace,
}

/// Why bytes are not a request of a hook.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// They are not JSON, or a field is missing.
    #[error("the request of {hook} is not valid: {reason}")]
    Invalid {
        /// Which hook was called.
        hook: Hook,
        /// What is not.
        reason: String,
    },
    /// They are another request.
    #[error("the request of {hook} says kind {kind}: expected {hook}Request")]
    Kind {
        /// Which hook was called.
        hook: Hook,
        /// What it says.
        kind: String,
    },
    /// The choice for what cannot be upgraded in place is none.
    #[error("annotation {ON_DECLINE} is not a valid choice: it says {value:?}, expected hold or replace")]
    OnDecline {
        /// What it says.
        value: String,
    },
}

/// A machine with what belongs to it, as Cluster API sends them: without status and UID.
#[derive(Clone, Debug, PartialEq)]
pub struct Objects {
    /// `Machine`, or `MachineSet`.
    pub machine: Value,
    /// The provider's machine, or its template.
    pub infrastructure: Value,
    /// `KubeadmConfig`, or its template; none where machines are not bootstrapped by Cluster API.
    pub bootstrap: Option<Value>,
}

/// The request of [`Hook::CanUpdateMachine`] and of [`Hook::CanUpdateMachineSet`].
#[derive(Clone, Debug, PartialEq)]
pub struct CanUpdate {
    /// Which of the two.
    pub hook: Hook,
    /// As it is.
    pub current: Objects,
    /// As it is to be.
    pub desired: Objects,
}

/// The request of [`Hook::UpdateMachine`].
#[derive(Clone, Debug, PartialEq)]
pub struct UpdateMachine {
    /// As it is to be.
    pub desired: Objects,
}

#[derive(Deserialize)]
struct Wire<T> {
    kind: String,
    current: Option<T>,
    desired: Option<T>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MachineObjects {
    machine: Value,
    infrastructure_machine: Value,
    bootstrap_config: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MachineSetObjects {
    machine_set: Value,
    infrastructure_machine_template: Value,
    bootstrap_config_template: Option<Value>,
}

impl From<MachineObjects> for Objects {
    fn from(objects: MachineObjects) -> Self {
        Self {
            machine: objects.machine,
            infrastructure: objects.infrastructure_machine,
            bootstrap: objects.bootstrap_config,
        }
    }
}

impl From<MachineSetObjects> for Objects {
    fn from(objects: MachineSetObjects) -> Self {
        Self {
            machine: objects.machine_set,
            infrastructure: objects.infrastructure_machine_template,
            bootstrap: objects.bootstrap_config_template,
        }
    }
}

impl CanUpdate {
    /// Reads the request about a machine.
    ///
    /// # Errors
    /// [`RequestError`] when it is another or incomplete.
    pub fn of_machine(bytes: &[u8]) -> Result<Self, RequestError> {
        Self::read::<MachineObjects>(Hook::CanUpdateMachine, bytes)
    }

    /// Reads the request about the machines of a set.
    ///
    /// # Errors
    /// [`RequestError`] when it is another or incomplete.
    pub fn of_machine_set(bytes: &[u8]) -> Result<Self, RequestError> {
        Self::read::<MachineSetObjects>(Hook::CanUpdateMachineSet, bytes)
    }

    fn read<'de, T: Deserialize<'de> + Into<Objects>>(hook: Hook, bytes: &'de [u8]) -> Result<Self, RequestError> {
        let wire: Wire<T> = wire(hook, bytes)?;
        let [current, desired] = [(wire.current, "current"), (wire.desired, "desired")]
            .map(|(objects, name)| objects.map(Into::into).ok_or_else(|| missing(hook, name)));
        Ok(Self { hook, current: current?, desired: desired? })
    }

    /// What is wanted where machines are upgraded in place, and none where they are replaced.
    ///
    /// # Errors
    /// [`RequestError::OnDecline`] when the annotation says something else.
    pub fn on_decline(&self) -> Result<Option<OnDecline>, RequestError> {
        let places: &[&str] = match self.hook {
            // Owners hand on the annotations of their templates.
            Hook::CanUpdateMachineSet => &["/spec/template/metadata/annotations", "/metadata/annotations"],
            Hook::Discovery | Hook::CanUpdateMachine | Hook::UpdateMachine => &["/metadata/annotations"],
        };
        let written = places.iter().find_map(|place| self.desired.machine.pointer(place)?.get(ON_DECLINE));
        match written.map(|value| value.as_str().unwrap_or_default()) {
            None => Ok(None),
            Some("hold") => Ok(Some(OnDecline::Hold)),
            Some("replace") => Ok(Some(OnDecline::Replace)),
            Some(value) => Err(RequestError::OnDecline { value: value.chars().take(40).collect() }),
        }
    }
}

impl UpdateMachine {
    /// Reads the request.
    ///
    /// # Errors
    /// [`RequestError`] when it is another or incomplete.
    pub fn read(bytes: &[u8]) -> Result<Self, RequestError> {
        let wire: Wire<MachineObjects> = wire(Hook::UpdateMachine, bytes)?;
        let desired = wire.desired.ok_or_else(|| missing(Hook::UpdateMachine, "desired"))?;
        Ok(Self { desired: desired.into() })
    }

    /// The name of the Machine.
    #[must_use]
    pub fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// The namespace of the Machine.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.text("/metadata/namespace")
    }

    /// The version that the Machine is to have.
    #[must_use]
    pub fn version(&self) -> &str {
        self.text("/spec/version")
    }

    fn text(&self, place: &str) -> &str {
        self.desired.machine.pointer(place).and_then(Value::as_str).unwrap_or_default()
    }
}

fn wire<'de, T: Deserialize<'de>>(hook: Hook, bytes: &'de [u8]) -> Result<Wire<T>, RequestError> {
    let wire: Wire<T> =
        serde_json::from_slice(bytes).map_err(|error| RequestError::Invalid { hook, reason: error.to_string() })?;
    if wire.kind == format!("{hook}Request") {
        Ok(wire)
    } else {
        Err(RequestError::Kind { hook, kind: wire.kind.chars().take(80).collect() })
    }
}

fn missing(hook: Hook, field: &str) -> RequestError {
    RequestError::Invalid { hook, reason: format!("field {field} is missing") }
}
