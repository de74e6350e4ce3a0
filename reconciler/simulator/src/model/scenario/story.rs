//! A scenario with only those of its troubles that matter, small enough to be read and kept.

use std::{collections::BTreeSet, fmt, str::FromStr};

use super::{Scenario, scenario_without};

/// The scenario of a seed with faults and people, without some of its troubles.
///
/// Its text is three words and numbers, `seed 7`, `without 0 2`, `undisturbed`, a line each; lines that begin with `#` are for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Story {
    /// The seed.
    pub seed: u64,
    /// Troubles that are left out, by their numbers.
    pub without: BTreeSet<usize>,
    /// Whether processes die and two of them work at once.
    pub disturbed: bool,
}

/// A text that is no story.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{line:?} is no line of a story: write `seed NUMBER`, `without NUMBER…`, `undisturbed` or a comment with #")]
pub struct InvalidStory {
    line: String,
}

impl Story {
    /// All that the seed has.
    #[must_use]
    pub fn of_seed(seed: u64) -> Self {
        Self { seed, without: BTreeSet::new(), disturbed: true }
    }

    /// Its scenario.
    #[must_use]
    pub fn scenario(&self) -> Scenario {
        Scenario { disturbed: self.disturbed, ..scenario_without(self.seed, false, &self.without) }
    }

    /// The smallest story in which `fails` still holds: whatever can be left out is left out, one after another.
    #[must_use]
    pub fn shrink(mut self, fails: impl Fn(&Scenario) -> bool) -> Self {
        let calmer = Self { disturbed: false, ..self.clone() };
        if fails(&calmer.scenario()) {
            self = calmer;
        }
        for number in 0..self.scenario().troubles {
            let mut smaller = self.clone();
            smaller.without.insert(number);
            if fails(&smaller.scenario()) {
                self = smaller;
            }
        }
        self
    }
}

impl fmt::Display for Story {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in self.scenario().summary {
            writeln!(formatter, "# {line}")?;
        }
        writeln!(formatter, "seed {}", self.seed)?;
        if !self.without.is_empty() {
            let numbers: Vec<String> = self.without.iter().map(ToString::to_string).collect();
            writeln!(formatter, "without {}", numbers.join(" "))?;
        }
        if !self.disturbed {
            writeln!(formatter, "undisturbed")?;
        }
        Ok(())
    }
}

impl FromStr for Story {
    type Err = InvalidStory;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut seed = None;
        let mut story = Self::of_seed(0);
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        for line in lines {
            let invalid = || InvalidStory { line: line.to_owned() };
            match line.split_once(' ').unwrap_or((line, "")) {
                ("seed", number) => seed = Some(number.trim().parse().map_err(|_| invalid())?),
                ("without", numbers) => {
                    let numbers: Result<_, _> = numbers.split_whitespace().map(str::parse).collect();
                    story.without = numbers.map_err(|_| invalid())?;
                }
                ("undisturbed", "") => story.disturbed = false,
                _ => return Err(invalid()),
            }
        }
        story.seed = seed.ok_or_else(|| InvalidStory { line: "seed".to_owned() })?;
        Ok(story)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Controller, Defect, play};
    use super::*;

    #[test]
    fn a_failing_seed_shrinks_to_the_one_trouble_that_it_takes() {
        let ignores_pause = |scenario: &Scenario| {
            let played = play(scenario, 0, |simulation| Controller::start_with(simulation, Defect::IgnoresPause));
            played.simulation.violations().iter().any(|violation| violation.invariant == "I7")
        };
        let several = |seed: &u64| {
            let scenario = Story::of_seed(*seed).scenario();
            scenario.troubles > 2 && ignores_pause(&scenario)
        };
        let seed = (0..100).find(several).unwrap();
        let story = Story::of_seed(seed).shrink(ignores_pause);
        let told = story.to_string();
        let lines: Vec<&str> = told.lines().filter(|line| line.starts_with('#')).collect();
        assert!(lines.len() == 2 && lines[1].ends_with("paused for ten minutes"), "{told}");
        assert!(told.ends_with("undisturbed\n"), "{told}");
        assert!(ignores_pause(&story.scenario()));
        assert_eq!(told.parse(), Ok(story));
    }

    #[test]
    fn what_is_no_story_is_named() {
        for text in ["", "without 1", "seed x", "seed 1\nwithout one", "seed 1\nsomething"] {
            assert!(text.parse::<Story>().is_err(), "{text}");
        }
        let story: Story = "# why\n\nseed 7\nwithout 2 0\n".parse().unwrap();
        assert_eq!(story, Story { seed: 7, without: BTreeSet::from([0, 2]), disturbed: true });
    }
}
