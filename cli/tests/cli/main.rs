//! The tests of the program, on real servers. They are one binary, so that they are linked once.

mod connection;
mod doctor;
mod exit_codes;
mod layouts;
mod lead;
mod loss;
mod ls;
mod manual;
mod members;
mod once;
mod permits;
mod places;
mod readers;
mod release;
mod run;
mod several;
mod show;
mod support;
mod surroundings;
mod terminal;
mod tls;
mod usage;
mod verify;
mod watch;
mod words;
