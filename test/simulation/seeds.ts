/**
 * Seeds that once broke a law, one for each thing that was wrong; every one of them is run by `npm test`. A seed draws the same for as
 * long as `workload.ts` draws the same, so what it found also has a test of its own beside the code that was mended.
 */
export const FAILED_SEEDS: readonly number[] = [
  // A run that left after its drain sent a line again while the first request was still under way.
  20_779_053,
  // A key that was refused for all ended items that had failed for another reason before.
  1_000_573,
  // A run that was stopped while the disk was full counted requests that never left.
  900_031,
  // Refusals that no limit explains left a pace of one request a minute.
  1_000_409,
  // The wall clock jumped while a run was accepted.
  2_002_081,
  // A run left the note of what held it.
  2_000_252,
  // The error of a disk came as it was, where the deadline of a run passed whose input could not be read.
  2_001_870,
  // An item's own answer without text was taken for a proof against it, in the outage that followed.
  101_004_013,
  // A refusal of the key that took long ended its item, because others were accepted before it arrived.
  105_000_597,
  // Under at_most_once a changed line was not sent, because a request for what it was before may have been answered.
  106_000_099,
  // The same of lines whose retry was asked for by their code.
  106_000_229,
  // A request that was recorded again after a full disk counted twice under its cap, once its process had died.
  106_000_220,
  // The wait for an account began while another provider still answered, and was over when that one was done.
  106_000_002,
  // An answer that a power cut had damaged was taken for the second one, which was adopted after a kill.
  106_015_683,
  // A request that waited for room on the disk left although its lane had been refused meanwhile.
  106_016_866,
  // The checker took an answer to a request that was sent before the account was stopped for one that ended the stop.
  107_012_933,
  // The checker compared the end of a held item with the last failure of another lane of its provider.
  107_010_942,
  // The checker counted with the raised amount of a shared cap before any call had passed it.
  107_008_259,
  // A run was continued at another fraction of a millisecond than it was accepted at, and its items expired before their sla was over.
  107_000_979,
  // The same without a stop, by the rounding of a sum: wall times are too large for fractions of a millisecond.
  107_009_767,
  // A retry was never sent, because a lane forgot its project when it removed an earlier entry of the same project.
  107_005_012,
  // The cap held all items of the lane whose turn it was, and the lanes that had been asked before it were not asked again.
  107_012_987,
  // Under at_most_once a line in doubt, which needs no request, waited for its turn in a lane with a rate limit.
  107_015_242,
  // The store of the simulation applied an append after it had rejected it, so that an update miscounted its own steps.
  107_001_339,
  // A start wrote records that existed already, and a disk that takes 100 ms for each write made its items expire 1.1 s after it.
  107_005_561,
  // The checker knew only of a jump of the clock before a power cut, not of one between it and the first call that was accepted after it.
  304_002_480,
  // A run with `finish` ended while its stream still had lines, and those were missing in its output.
  306_001_150,
  // The checker compared lines that had ended under a shared cap with its amount after a later raise.
  306_002_706,
  // With one request a call, each call sent the same line again, which failed for its own sake.
  306_000_442,
  // The checker did not know that a deadline is up to 2 ms late, as it is of whole milliseconds.
  108_004_480,
  // The checker took a run for one at work until all runs were over: lines that its stream gave after its deadline "waited".
  108_008_611,
  // Power cuts that damaged an answer made attempts of earlier restarts count against its line.
  108_002_073,
  // Runs that were called in one instant did not see, for a moment, what another had spent under their shared cap.
  112_013_009,
  // With each boot, a deadline could come earlier by a fraction of a millisecond.
  112_010_237,
  // An error that an update wrote again, and of which a kill left no record, was taken for the line of another program.
  112_006_365,
  // The checker heard how the run of a dead process ended.
  112_000_417,
  // The checker took an answer to a request from before a 429 for the end of the wait that it asked for.
  121_000_831,
  // The caller of a run called again every 20 s, while the provider asked for 15 minutes.
  140_000_517,
  // A power cut tore the copy of a stream that a retry made once more, and the next call compared the stream with it.
  160_002_050,
  // An answer to a request from before an outage was taken for proof against items that had failed before it.
  170_005_707,
  // A kill between a rename and the sync of its folder, and a power cut after the next process had counted on the new name.
  190_009_378,
  // Answers from the time of an item's first hang counted against its later attempts, when its provider had stopped.
  190_005_009,
  // The time for which a 429 made a lane wait was taken for one of low load, and half of that load was a request in 6 minutes.
  190_011_465,
  // The caller of a run took a call whose only connection was refused for one that sent nothing, and called again every 15 min.
  320_000_714,
  // The checker took the bound of an earlier 429's wait for that wait, and an answer from before a second 429 for its end.
  400_000_174,
  // A key that an earlier process was refused ended the items of one run while the probe of another was under way.
  500_002_233,
  // The checker took a request that was sent at the moment of a 429 for one that was sent after its wait.
  500_006_212,
  // A run whose shared cap was raised stopped when the last item ended that it did not hold.
  610_000_598,
  // An item that had hung once ended in the first two seconds of an outage, while all others failed.
  800_010_246,
  // On a disk of 100 ms an operation, expired lines of one run waited for the output of another in the same commit.
  1_000_005_595,
  // A request was sent 83 ms after a 429 that asked for 7 s: its intent was being recorded.
  1_100_000_602,
  // An item that had hung while others were answered ended by two 504s when nobody was answered any longer.
  1_200_018_625,
  // A store that was to fail at the end of all runs failed when they were called again, which is after all trouble.
  1_600_003_988,
  // The store was full three times at once, so its commits failed for longer than the law excused.
  1_900_000_253,
  // Of two runs that waited for a cheaper tier, the one with the earlier deadline was woken with the other one.
  2_150_015_353,
  // A cheaper tier took all places in flight that the models of a provider share, and realtime none.
  2_150_107_440, 2_150_108_631,
  // The last item met a tier that answers errors in each process, which gave up waiting before it was asked in realtime.
  2_307_830_144,
];
