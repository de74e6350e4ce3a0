//! What a webhook says of one field of one kind, as data.

/// One field that is refused when it changes. A table of them is a list of what people wrote in webhooks, with the source at its top.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    /// The API group.
    pub group: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// The field, with dots.
    pub field: &'static str,
    /// Which changes are refused.
    pub check: Check,
    /// For which objects.
    pub when: When,
    /// What to do instead.
    pub remedy: Remedy,
}

/// Which changes of a field are refused.
#[derive(Clone, Copy, Debug)]
pub(super) enum Check {
    /// Any; what is absent and what is empty are the same.
    Any,
    /// Any, and objects say nothing of what it was where they name another version of the API.
    AnyAtOneVersion,
    /// Any but that of the fields named below it, where objects name one version of the API.
    AnyBut(&'static [&'static str]),
    /// From one value to another. Where one side leaves it out, a default or a controller may fill it in.
    BetweenValues,
    /// Any of the values in a list, whose order does not count.
    ValuesOfList,
    /// That it goes.
    Removal,
    /// That it goes, unless the field named beside it is there.
    RemovalWithout(&'static str),
    /// That it comes or goes; what is in it may change.
    Presence,
    /// Of its name and of its kind, where it refers to something.
    Reference,
    /// The same, where both sides refer to something.
    AnotherReference,
    /// Of the item of this kind in a list of references, where both lists have one.
    ReferenceOfKind(&'static str),
    /// Of an item of a list, known by its name, where both lists have it.
    ItemsByName,
    /// Of one field of the items of a list, known by their names, where both lists have them.
    FieldOfItems(&'static str),
    /// Of the first user: the name, the first key, and how many there are of both.
    FirstUser,
    /// Of the plug-in that it chooses: `cniConfig` by its key, or the older `cni`.
    NetworkPlugin,
}

/// For which objects a field is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// For all.
    Always,
    /// Unless EKS Anywhere's pause is on the object as it is deployed.
    NotPaused,
    /// Where the cluster manages itself.
    SelfManaged,
    /// Where another cluster manages it, and it is not paused.
    Managed,
    /// Where the cluster is one of bare metal by Tinkerbell, and not paused.
    Tinkerbell,
    /// Where the same change moves the Kubernetes version of a cluster of bare metal by Tinkerbell.
    TinkerbellUpgrade,
    /// Where the control plane or etcd of a cluster that manages itself is made of it, and it is not paused.
    ControlPlaneOfSelfManaged,
}

/// What to do instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Take it back: only a new cluster has another value.
    NewCluster,
    /// Make another object, and refer to it.
    NewObject,
    /// Make another template, and refer to it.
    NewTemplate,
    /// Keep the field.
    Keep,
    /// Change it in a commit of its own.
    Apart,
}

impl Remedy {
    pub fn text(self, kind: &str) -> String {
        match self {
            Self::NewCluster => "take the change back; only a new cluster can have another value".to_owned(),
            Self::NewObject => {
                format!("take the change back, make a new {kind} of another name with it, and refer to that one")
            }
            Self::NewTemplate => format!(
                "take the change back, make a new {kind} of another name with it, and refer to that one: the machines \
                 are then rolled"
            ),
            Self::Keep => "put the field back".to_owned(),
            Self::Apart => "change the Kubernetes version first, and this in a later commit".to_owned(),
        }
    }
}
