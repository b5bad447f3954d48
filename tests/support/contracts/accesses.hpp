#pragma once
// That a kernel makes its accesses through ldg(), stg(), lds(), sts() and atomicAdd(). A plain access is
// right on the emulator, too, but nobody checks or counts it: so counters are compared with the exact
// number of bytes, and not with a bound that 0 is below as well.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "kernels/simt/report.hpp"

namespace ultra::test {

// What to tell a learner whose kernel leaves accesses of that kind uncounted.
inline const char* hint_of_uncounted(simt::AccessKind kind) {
  switch (kind) {
    case simt::AccessKind::kGlobalLoad:
      return "this kernel reads past ldg(): a plain p[i] is neither checked nor counted. Load all "
             "of global memory by ldg(&p[i])";
    case simt::AccessKind::kGlobalStore:
      return "this kernel writes past stg(): a plain p[i] = x is unchecked and uncounted. Store "
             "to global memory by stg(&p[i], x)";
    case simt::AccessKind::kSharedLoad:
      return "this kernel reads past lds(): a plain tile[i] is not counted, and no race on it is "
             "found. Load all of shared memory by lds(&tile[i])";
    case simt::AccessKind::kSharedStore:
      return "this kernel writes past sts(): a plain tile[i] = x is not counted, and no race on it "
             "is found. Store to shared memory by sts(&tile[i], x)";
    default:
      return "this kernel adds past atomicAdd(): blocks take turns on the emulator, but on a GPU a "
             "plain *p += x loses what others add at the same time";
  }
}

// Expects that at least so many bytes of a kind were counted.
inline void expect_counted(const simt::Report& report, simt::AccessKind kind, std::uint64_t least) {
  const std::uint64_t bytes = report.total(kind).bytes;
  EXPECT_GE(bytes, least) << fmt::format(
      "{}s of {} bytes were counted, at least {} are needed. Hint: {}", simt::name_of(kind), bytes,
      least, hint_of_uncounted(kind));
}

// Expects that exactly so many bytes of a kind were counted; `hint` is for a kernel that moves more.
inline void expect_bytes(const simt::Report& report, simt::AccessKind kind, std::uint64_t wanted,
                         const char* hint) {
  expect_counted(report, kind, wanted);
  const std::uint64_t bytes = report.total(kind).bytes;
  EXPECT_LE(bytes, wanted) << fmt::format("{}s of {} bytes were counted, {} are enough. Hint: {}",
                                          simt::name_of(kind), bytes, wanted, hint);
}

}  // namespace ultra::test
