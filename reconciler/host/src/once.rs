//! An answer that several want and one asks for.

use std::sync::OnceLock;

use futures::lock::Mutex;

/// The place of one answer. Whoever comes first asks; those who come meanwhile wait for that answer, and nobody who wants another one does. Where
/// whoever asked goes away, or gets no answer to be kept, the next one asks.
///
/// It works under any executor, also where one runs inside of another: what tokio offers waits for tokio's own.
#[derive(Debug)]
pub struct Once<T> {
    answer: OnceLock<T>,
    turn: Mutex<()>,
}

impl<T> Default for Once<T> {
    fn default() -> Self {
        Self { answer: OnceLock::new(), turn: Mutex::new(()) }
    }
}

impl<T> Once<T> {
    /// The answer that is there already.
    pub fn answered(answer: T) -> Self {
        Self { answer: OnceLock::from(answer), turn: Mutex::new(()) }
    }

    /// The answer, if it is there.
    pub fn get(&self) -> Option<&T> {
        self.answer.get()
    }

    /// The answer.
    pub async fn get_or_ask(&self, ask: impl AsyncFnOnce() -> T) -> &T {
        match self.get_or_try(async || Ok::<T, std::convert::Infallible>(ask().await)).await {
            Ok(answer) => answer,
        }
    }

    /// The answer.
    ///
    /// # Errors
    /// What was got in its place, which is not kept.
    pub async fn get_or_try<E>(&self, ask: impl AsyncFnOnce() -> Result<T, E>) -> Result<&T, E> {
        if let Some(answer) = self.answer.get() {
            return Ok(answer);
        }
        let _turn = self.turn.lock().await;
        if let Some(answer) = self.answer.get() {
            return Ok(answer);
        }
        let answer = ask().await?;
        Ok(self.answer.get_or_init(|| answer))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures::executor::block_on;
    use futures::future::{join, pending, poll_immediate};

    use super::*;

    #[test]
    fn many_want_it_and_one_asks() {
        let (once, asked) = (Once::default(), Cell::new(0));
        let ask = async || {
            asked.set(asked.get() + 1);
            poll_immediate(pending::<()>()).await;
            asked.get()
        };
        assert_eq!(block_on(join(once.get_or_ask(ask), once.get_or_ask(ask))), (&1, &1));
        assert_eq!((once.get(), asked.get()), (Some(&1), 1));
    }

    #[test]
    fn the_next_one_asks_where_there_was_no_answer() {
        let once = Once::<u8>::default();
        assert!(block_on(poll_immediate(once.get_or_ask(async || pending().await))).is_none());
        assert_eq!(block_on(once.get_or_try(async || Err("away"))), Err("away"));
        assert_eq!(block_on(once.get_or_try(async || Ok::<_, ()>(7))), Ok(&7));
    }
}
