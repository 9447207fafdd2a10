//! What clients do, by seed.

use crate::frame::Frame;

#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A new session. The client has none.
    Connect { timeout: i32 },
    /// The session again on a new connection.
    Resume { password: bool, ahead: bool },
    /// A request with its name for the reader.
    Ask { code: i32, body: Vec<u8>, shown: String },
}

pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }

    fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize].clone()
    }

    fn one_in(&mut self, number: u64) -> bool {
        self.below(number) == 0
    }
}

/// Makes requests. The nodes of one seed are in a directory of their own.
pub(crate) struct Generator {
    pub(crate) dice: Dice,
    root: String,
    /// Version 3.8.0 answers to a multi with flags of times to live in a `create` only if it comes so far.
    old: bool,
    /// The last zxid that a client has seen, for the watches that it sets again.
    pub(crate) zxid: i64,
}

const PERMISSIONS: [i32; 5] = [31, 31, 1, 15, 30];

impl Generator {
    pub(crate) fn new(seed: u64, old: bool) -> Self {
        Self { dice: Dice::new(seed), root: format!("/seed-{seed}"), old, zxid: 0 }
    }

    /// The first request of a seed: it creates the directory.
    pub(crate) fn first(&self) -> Step {
        let body = Frame::default().string(&self.root).string("").with(world(31)).int(0);
        Step::Ask { code: 1, body: body.0, shown: format!("create {}", self.root) }
    }

    pub(crate) fn next(&mut self, has_session: bool) -> Step {
        if !has_session {
            return Step::Connect { timeout: self.dice.pick(&[0, 5_000, 10_000, 1_000_000]) };
        }
        if self.dice.one_in(60) {
            return Step::Resume { password: !self.dice.one_in(6), ahead: self.dice.one_in(8) };
        }
        let code = self.dice.pick(&[
            1, 1, 1, 1, 15, 15, 15, 15, 15, 19, 19, 21, 2, 2, 2, 2, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 6, 7, 8, 8,
            8, 9, 11, 12, 12, 12, 14, 14, 14, 14, 14, 14, 16, 18, 18, 18, 22, 22, 101, 103, 104, 105, 106,
            106, 107,
        ]);
        let code = match self.dice.below(100) {
            0 => 100,
            1 => -11,
            2 if self.dice.one_in(3) => 102,
            3 if self.dice.one_in(4) => 77,
            _ => code,
        };
        let (body, shown) = self.body(code);
        Step::Ask { code, body: body.0, shown }
    }

    fn path(&mut self) -> String {
        const NAMES: [&str; 3] = ["a", "b", "c"];
        let root = self.root.clone();
        match self.dice.below(40) {
            0 => self.dice.pick(&["/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"]).into(),
            1 => self
                .dice
                .pick(&["x", "", "//", "/x/", "/x//y", "/x/../y", "/\u{1}", "/x\0", "/./x", "/\u{e000}"])
                .into(),
            2 => root,
            3 => format!("{root}/a/missing/x"),
            4..20 => format!("{root}/{}", self.dice.pick(&NAMES)),
            20..37 => format!("{root}/{}/{}", self.dice.pick(&NAMES), self.dice.pick(&NAMES)),
            // Names of sequential nodes, as they may come to be.
            _ => format!("{root}/{}/{:010}", self.dice.pick(&NAMES), self.dice.below(4)),
        }
    }

    fn version(&mut self) -> i32 {
        self.dice.pick(&[-1, -1, -1, 0, 0, 1, 2, -2])
    }

    fn data(&mut self) -> Vec<u8> {
        vec![b'd'; self.dice.below(5) as usize]
    }

    fn list(&mut self) -> Frame {
        let permissions = self.dice.pick(&PERMISSIONS);
        match self.dice.below(24) {
            0 => acl(&[(permissions, "auth", "")]),
            1 => acl(&[(31, "digest", "user:smGaoVKd/cQkjm7b88GyorAUz20="), (1, "world", "anyone")]),
            2 => acl(&[]),
            3 => acl(&[(31, "digest", self.dice.pick(&["", "a", ":b", "a:", "a:b", "a:b:c"]))]),
            4 => acl(&[(31, "nobody", "x")]),
            5 => acl(&[
                (permissions, "world", "anyone"),
                (permissions, "world", "anyone"),
                (4, "ip", "127.0.0.1"),
            ]),
            6 => acl(&[(31, "world", "somebody")]),
            7 => acl(&[(31, "ip", self.dice.pick(&["10.0.0.1", "127.0.0.1", "x"])), (1, "world", "anyone")]),
            8 => world(permissions),
            _ => world(31),
        }
    }

    fn create(&mut self, code: i32) -> (Frame, String) {
        let mut path = self.path();
        let flags = match code {
            19 => 4,
            21 => self.dice.pick(&[5, 5, 6, 0]),
            _ if self.old => self.dice.pick(&[0, 0, 0, 1, 1, 2, 3, 3]),
            _ => self.dice.pick(&[0, 0, 0, 1, 1, 2, 3, 3, 4, 5, 9]),
        };
        if [2, 3, 6].contains(&flags) && self.dice.one_in(2) {
            path = format!("{path}/");
        }
        let body = Frame::default().string(&path).bytes(&self.data()).with(self.list()).int(flags);
        let ttl = match flags {
            5 | 6 => self.dice.pick(&[1_000_000, 1_000_000, 0, -1, 1 << 41]),
            // A real server dies of a `createTTL` that asks for a node without a time to live, and gives none.
            _ => self.dice.pick(&[1_000_000, 0, 1 << 41]),
        };
        let body = if code == 21 { body.long(ttl) } else { body };
        (body, format!("create({code}) {path} flags {flags} ttl {ttl}"))
    }

    fn write(&mut self, code: i32) -> (Frame, String) {
        let (path, version) = (self.path(), self.version());
        let body = Frame::default().string(&path);
        match code {
            1 | 15 | 19 | 21 => self.create(code),
            2 => (body.int(version), format!("delete {path} {version}")),
            5 => (body.bytes(&self.data()).int(version), format!("setData {path} {version}")),
            7 => (body.with(self.list()).int(version), format!("setACL {path} {version}")),
            13 => (body.int(version), format!("check {path} {version}")),
            code => unreachable!("{code} writes nothing"),
        }
    }

    fn paths(&mut self) -> Vec<String> {
        (0..self.dice.below(3)).map(|_| self.path()).collect()
    }

    fn body(&mut self, code: i32) -> (Frame, String) {
        let (path, watch) = (self.path(), self.dice.one_in(2));
        let empty = Frame::default();
        let named = Frame::default().string(&path);
        match code {
            1 | 15 | 19 | 21 | 2 | 5 | 7 => self.write(code),
            3 | 4 | 8 | 12 => (named.bool(watch), format!("read({code}) {path} watch {watch}")),
            6 | 9 | 103 | 104 => (named, format!("read({code}) {path}")),
            14 => {
                let (mut body, mut shown) = (empty, "multi".to_owned());
                for _ in 0..self.dice.below(4) {
                    let code = self.dice.pick(&[1, 1, 15, 15, 19, 21, 2, 2, 5, 5, 13, 13]);
                    let (part, name) = self.write(code);
                    body = body.int(code).bool(false).int(-1).with(part);
                    shown += &format!(" [{name}]");
                }
                (body.int(-1).bool(true).int(-1), shown)
            }
            22 => {
                let (mut body, mut shown) = (empty, "multiRead".to_owned());
                for _ in 0..self.dice.below(4) {
                    let (code, path) = (self.dice.pick(&[4, 8]), self.path());
                    body = body.int(code).bool(false).int(-1).string(&path).bool(self.dice.one_in(4));
                    shown += &format!(" [{code} {path}]");
                }
                (body.int(-1).bool(true).int(-1), shown)
            }
            18 => {
                let kind = self.dice.pick(&[1, 2, 3, 3, 4, 5]);
                (named.int(kind), format!("removeWatches {path} kind {kind}"))
            }
            101 | 105 => {
                let since = self.zxid - self.dice.below(8) as i64;
                let lists: Vec<_> = (0..if code == 101 { 3 } else { 5 }).map(|_| self.paths()).collect();
                let body = lists.iter().fold(empty.long(since), |body, list| body.strings(list));
                (body, format!("setWatches({code}) since {since:#x} {lists:?}"))
            }
            106 => {
                let mode = self.dice.pick(&[0, 1]);
                (named.int(mode), format!("addWatch {path} mode {mode}"))
            }
            100 => {
                let scheme = self.dice.pick(&["digest", "digest", "digest", "ip", "nobody"]);
                let secret = self.dice.pick(&["user:pass", "a:b", "other:word", "x"]);
                (empty.int(0).string(scheme).string(secret), format!("auth {scheme} {secret}"))
            }
            102 => (empty.bytes(b"token"), "sasl".into()),
            16 => (empty.string("").string("").string("").long(-1), "reconfig".into()),
            11 | 107 | -11 | 77 => (empty, format!("operation {code}")),
            code => unreachable!("no operation has the number {code}"),
        }
    }
}

fn acl(grants: &[(i32, &str, &str)]) -> Frame {
    let list = Frame::default().int(grants.len() as i32);
    grants
        .iter()
        .fold(list, |list, (permissions, scheme, id)| list.int(*permissions).string(scheme).string(id))
}

pub(crate) fn world(permissions: i32) -> Frame {
    acl(&[(permissions, "world", "anyone")])
}
