//! One cell of the matrix: what kind of cluster is upgraded, and how.

use std::fmt;
use std::str::FromStr;

use anyhow::Context as _;

/// An axis of the matrix: its values, and the word for each.
macro_rules! axis {
    ($(#[$of_axis:meta])* $axis:ident { $($(#[$of_value:meta])* $value:ident = $word:literal,)+ }) => {
        $(#[$of_axis])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $axis {
            $($(#[$of_value])* $value,)+
        }

        impl $axis {
            /// Every value, in the order of the page.
            pub const ALL: &[Self] = &[$(Self::$value,)+];

            /// Its word in names of cells.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$value => $word,)+
                }
            }

            fn of(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.word() == word)
            }
        }
    };
}

axis! {
    /// Where etcd is.
    Etcd {
        /// On the machines of the control plane.
        Stacked = "stacked",
        /// On machines of its own.
        External = "external",
    }
}

axis! {
    /// How many machines the control plane has.
    ControlPlane {
        /// A single one, to begin with.
        One = "one",
        /// Three.
        Three = "three",
    }
}

axis! {
    /// Whether the number of machines changes in the middle of an upgrade.
    Scaling {
        /// It stays.
        Steady = "steady",
        /// A worker is added.
        Workers = "scaling",
        /// The control plane grows to three machines.
        ControlPlane = "growing",
    }
}

axis! {
    /// What becomes of machines.
    Strategy {
        /// Others take their place.
        Rolling = "rolling",
        /// They are upgraded where they are.
        InPlace = "in-place",
    }
}

axis! {
    /// Where the controllers of the cluster run.
    Management {
        /// In another cluster.
        Managed = "managed",
        /// In itself.
        SelfManaged = "self-managed",
    }
}

axis! {
    /// What happens to the components that a bundle brings.
    Components {
        /// Nothing: Kubernetes goes up alone.
        Alone = "alone",
        /// They go up in a rollout of their own, before Kubernetes.
        Before = "before",
        /// They go up in the rollout that Kubernetes goes up in.
        Together = "together",
    }
}

/// One cell: a value of each axis. Its name is the words of these, such as `stacked/one/steady/rolling/managed/alone`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cell {
    /// Where etcd is.
    pub etcd: Etcd,
    /// How many machines the control plane has.
    pub control_plane: ControlPlane,
    /// Whether machines are added in the middle.
    pub scaling: Scaling,
    /// What becomes of machines.
    pub strategy: Strategy,
    /// Where its controllers run.
    pub management: Management,
    /// What happens to components.
    pub components: Components,
}

impl Cell {
    /// The words of its name.
    #[must_use]
    pub fn words(self) -> [&'static str; 6] {
        [
            self.etcd.word(),
            self.control_plane.word(),
            self.scaling.word(),
            self.strategy.word(),
            self.management.word(),
            self.components.word(),
        ]
    }

    /// How many machines its control plane begins with.
    #[must_use]
    pub fn control_plane_machines(self) -> u32 {
        match self.control_plane {
            ControlPlane::One => 1,
            ControlPlane::Three => 3,
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.words().join("/"))
    }
}

impl FromStr for Cell {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> anyhow::Result<Self> {
        let of = |name: &str| {
            let mut words = name.split('/');
            let cell = Self {
                etcd: Etcd::of(words.next()?)?,
                control_plane: ControlPlane::of(words.next()?)?,
                scaling: Scaling::of(words.next()?)?,
                strategy: Strategy::of(words.next()?)?,
                management: Management::of(words.next()?)?,
                components: Components::of(words.next()?)?,
            };
            words.next().is_none().then_some(cell)
        };
        of(name).with_context(|| format!("{name:?} is no cell of the matrix (--list shows them)"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_back_to_its_cell() {
        let cell = Cell {
            etcd: Etcd::External,
            control_plane: ControlPlane::Three,
            scaling: Scaling::Workers,
            strategy: Strategy::Rolling,
            management: Management::SelfManaged,
            components: Components::Together,
        };
        assert_eq!(cell.to_string(), "external/three/scaling/rolling/self-managed/together");
        assert_eq!(cell.to_string().parse::<Cell>().unwrap(), cell);
        for wrong in ["", "external", "external/three/scaling/rolling/self-managed/together/more", "a/b/c/d/e/f"] {
            let error = wrong.parse::<Cell>().unwrap_err().to_string();
            assert!(error.contains("is no cell of the matrix"), "{error}");
        }
    }
}
