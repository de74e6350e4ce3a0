//! The matrix: every cell, those that can be run, why others cannot, and the order in which they are run.

use std::collections::BTreeSet;

use anyhow::ensure;

use super::cell::{Cell, Components, ControlPlane, Etcd, Management, Scaling, Strategy};

/// The versions of Kubernetes that each upgrade goes through, one minor after the other.
pub const CHAIN: [&str; 3] = ["v1.34.0", "v1.35.0", "v1.36.0"];

/// Every cell, in the order of the page.
#[must_use]
pub fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for &etcd in Etcd::ALL {
        for &control_plane in ControlPlane::ALL {
            for &scaling in Scaling::ALL {
                for &strategy in Strategy::ALL {
                    for &management in Management::ALL {
                        for &components in Components::ALL {
                            cells.push(Cell { etcd, control_plane, scaling, strategy, management, components });
                        }
                    }
                }
            }
        }
    }
    cells
}

/// Why a cell is not offered; none where it is.
#[must_use]
pub fn why_not(cell: Cell) -> Option<&'static str> {
    if cell.management == Management::Managed && cell.components != Components::Alone {
        return Some(
            "what a bundle brings runs in the management cluster; a managed cluster has none of it but Cilium",
        );
    }
    if cell.scaling == Scaling::ControlPlane && cell.control_plane == ControlPlane::Three {
        return Some("three machines of a control plane have nothing to grow to that another cell does not show");
    }
    if cell.scaling == Scaling::ControlPlane && cell.strategy == Strategy::InPlace {
        return Some(
            "one machine is upgraded by Stepgate's controller and three by Cluster API's hooks: who grows goes from one to the \
             other by a change of annotations, which is no upgrade",
        );
    }
    if cell.strategy == Strategy::InPlace && cell.etcd == Etcd::External {
        return Some(
            "members of the external etcd are programs beside the nodes, which no upgrade of a node reaches; \
             EKS Anywhere refuses the two together as well",
        );
    }
    let is_by_hooks = cell.strategy == Strategy::InPlace && cell.control_plane == ControlPlane::Three;
    if is_by_hooks && cell.components != Components::Alone {
        return Some(
            "the bundle that it begins with brings Cluster API 1.11, which has no hooks for upgrades in place, and three \
             machines are upgraded by these",
        );
    }
    None
}

/// The cells that can be run.
#[must_use]
pub fn offered() -> Vec<Cell> {
    cells().into_iter().filter(|cell| why_not(*cell).is_none()).collect()
}

/// The cells that are not offered, by their reasons, in the order of the page.
#[must_use]
pub fn left_out() -> Vec<(&'static str, Vec<Cell>)> {
    let mut left_out: Vec<(&'static str, Vec<Cell>)> = Vec::new();
    for cell in cells() {
        let Some(reason) = why_not(cell) else { continue };
        match left_out.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, cells)) => cells.push(cell),
            None => left_out.push((reason, vec![cell])),
        }
    }
    left_out
}

/// The offered cells that have all words of `only`, which is the name of a cell or words with commas between them; all where it is empty.
///
/// # Errors
/// When a word is none of the matrix, or no offered cell has them all.
pub fn selected(only: &str) -> anyhow::Result<Vec<Cell>> {
    let words: Vec<&str> = only.split([',', '/']).map(str::trim).filter(|word| !word.is_empty()).collect();
    let known: BTreeSet<&str> = cells().iter().flat_map(|cell| cell.words()).collect();
    for word in &words {
        ensure!(known.contains(word), "{word:?} is none of {}", known.iter().copied().collect::<Vec<_>>().join(", "));
    }
    let has_all = |cell: &Cell| words.iter().all(|word| cell.words().contains(word));
    let selected: Vec<Cell> = offered().into_iter().filter(has_all).collect();
    let reason = || cells().into_iter().filter(has_all).find_map(why_not).unwrap_or("no cell has all of these words");
    ensure!(!selected.is_empty(), "{only}: {}", reason());
    Ok(selected)
}

/// The runs of a seed, without an end: all cells in an order by chance, then all in another one, each with a seed of its own. The first has
/// the seed itself, so that one run of one cell can be had again.
pub fn schedule(cells: Vec<Cell>, seed: u64) -> impl Iterator<Item = (Cell, u64)> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut next = Vec::new();
    let mut first = Some(seed);
    std::iter::from_fn(move || {
        if next.is_empty() {
            next.clone_from(&cells);
            random.shuffle(&mut next);
        }
        // Seeds are written by people: short ones.
        let own = random.u64(1..1_000_000_000);
        Some((next.pop()?, first.take().unwrap_or(own)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cell_is_offered_or_has_a_reason() {
        let all = cells();
        assert_eq!((all.len(), all.iter().collect::<BTreeSet<_>>().len()), (144, 144));
        let left_out: usize = left_out().iter().map(|(_, cells)| cells.len()).sum();
        assert_eq!(offered().len() + left_out, all.len());
        // No value of an axis is left out as a whole.
        let offered: BTreeSet<&str> = offered().iter().flat_map(|cell| cell.words()).collect();
        assert_eq!(offered, all.iter().flat_map(|cell| cell.words()).collect());
    }

    #[test]
    fn words_select_cells_and_a_name_selects_its_own() {
        assert_eq!(selected("").unwrap(), offered());
        let some = selected("stacked, three").unwrap();
        assert!(some.len() > 2 && some.iter().all(|cell| cell.words()[..2] == ["stacked", "three"]), "{some:?}");
        let name = "stacked/one/steady/rolling/managed/alone";
        assert_eq!(selected(name).unwrap(), [name.parse().unwrap()]);
        let unknown = selected("stacked,four").unwrap_err().to_string();
        assert!(unknown.contains("\"four\" is none of") && unknown.contains("three"), "{unknown}");
        let left_out = selected("external,in-place").unwrap_err().to_string();
        assert!(left_out.contains("members of the external etcd"), "{left_out}");
    }

    #[test]
    fn a_seed_gives_the_same_runs_again_and_each_cell_once_in_a_round() {
        let cells = offered();
        let runs: Vec<_> = schedule(cells.clone(), 7).take(2 * cells.len()).collect();
        assert_eq!(runs, schedule(cells.clone(), 7).take(2 * cells.len()).collect::<Vec<_>>());
        assert_ne!(runs, schedule(cells.clone(), 8).take(2 * cells.len()).collect::<Vec<_>>());
        let (one, another) = runs.split_at(cells.len());
        for round in [one, another] {
            assert_eq!(round.iter().map(|(cell, _)| *cell).collect::<BTreeSet<_>>(), cells.iter().copied().collect());
        }
        assert_eq!(runs[0].1, 7);
        let again: Vec<_> = schedule(vec![runs[3].0], runs[3].1).take(1).collect();
        assert_eq!(again, [runs[3]]);
        assert_eq!(schedule(Vec::new(), 7).next(), None);
    }
}
