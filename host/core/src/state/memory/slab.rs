//! Things numbered by where they lie; places are used again.

/// Things by their place. A place that is free holds a default.
#[derive(Debug, Default)]
pub(super) struct Slab<T> {
    places: Vec<T>,
    free: Vec<u32>,
}

impl<T: Default> Slab<T> {
    /// Puts a thing into a free place. There are at most `u32::MAX` places: memory ends long before.
    pub(super) fn insert(&mut self, thing: T) -> u32 {
        if let Some(id) = self.free.pop()
            && let Some(place) = self.places.get_mut(id as usize)
        {
            *place = thing;
            return id;
        }
        let id = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
        self.places.push(thing);
        id
    }

    /// Takes the thing out of a place in use.
    pub(super) fn remove(&mut self, id: u32) -> T {
        self.free.push(id);
        self.places.get_mut(id as usize).map(std::mem::take).unwrap_or_default()
    }

    #[inline]
    pub(super) fn get(&self, id: u32) -> Option<&T> {
        self.places.get(id as usize)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        self.places.get_mut(id as usize)
    }

    /// All places, free or not.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter()
    }

    /// The number of things.
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// The number of places, free or not.
    pub(super) fn places(&self) -> usize {
        self.places.len()
    }
}
