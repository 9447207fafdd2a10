//! Each scenario once: nobody is granted the lock while another guard is valid.

macro_rules! scenarios {
    ($($name:ident: $file:ident::$play:ident($($argument:expr),*),)*) => {
        $(#[test]
        fn $name() {
            let output = crate::proof(&["margins", "--repetitions", "1", stringify!($name)]);
            println!("{}", String::from_utf8_lossy(&output.stdout));
            assert!(output.status.success(), "{}", output.status);
        })*
    };
}

include!("../../src/margins/table.rs");
