//! One upgrade of one cell of the matrix, with the faults of a seed: what `tests/continuous/run` runs day and night.
//!
//! Real are the API server, Flux, Cluster API, the members of an external etcd, the repository and Stepgate. Machines are in memory.

mod bed;
mod cluster;
mod components;
mod elections;
mod end;
mod harm;
mod in_place;
mod upgrade;
mod versions;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use tests::continuous::cell::Cell;
use tests::continuous::fault::faults;
use tests::continuous::matrix::CHAIN;
use tests::continuous::progress::{Event, Phase, Teller};
use tests::continuous::{CELL, PROGRESS, SEED};
use tests::servers::{Programs, isolated};

use super::machines;
use bed::Bed;
use upgrade::Upgrades;
use watch::Watch;

#[test]
fn one_upgrade() {
    if std::env::var_os(CELL).is_none() {
        return skip::on_demand(format!("on demand: {CELL} names a cell (tests/continuous/run)"));
    }
    isolated("continuous::one_upgrade", &machines::needed(), async |programs| {
        let told = |name: &str| std::env::var(name).with_context(|| format!("{name} is not set"));
        let (cell, seed) = (told(CELL)?.parse::<Cell>()?, told(SEED)?.parse::<u64>()?);
        let teller = Arc::new(Teller::create(&PathBuf::from(told(PROGRESS)?))?);
        teller.tell(Event::Phase(Phase::Creating))?;
        let ended = Box::pin(run(programs, cell, seed, &teller)).await;
        if let Err(error) = &ended {
            teller.tell(Event::Error(format!("{error:#}")))?;
        }
        ended
    });
}

async fn run(programs: Programs, cell: Cell, seed: u64, teller: &Arc<Teller>) -> anyhow::Result<()> {
    println!("{cell}, seed {seed}");
    let mut bed = Box::pin(Bed::start(programs, cell)).await?;

    teller.tell(Event::Phase(Phase::Upgrading))?;
    let watch = Watch::start(&bed.scene, teller);
    let mut controller = bed.scene.controller()?;
    let faults = faults(seed, cell, CHAIN.len() - 1);
    let mut upgrades = Upgrades { bed: &mut bed, controller: &mut controller, watch: &watch, teller, faults };
    let wanted = upgrades.all().await?;
    end::assert_all(&bed, &watch, &wanted).await?;
    // Nobody works on while the cluster is taken away.
    drop((controller, watch));

    teller.tell(Event::Phase(Phase::Deleting))?;
    bed.delete().await?;
    teller.tell(Event::Phase(Phase::Done))?;
    bed.scene.folder.done();
    Ok(())
}
