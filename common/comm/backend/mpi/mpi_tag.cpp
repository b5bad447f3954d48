#include "common/comm/backend/mpi/mpi_tag.hpp"

#include <fmt/format.h>

#include "common/comm/comm_error.hpp"
#include "common/comm/communicator.hpp"

namespace ultra::comm::mpi {
namespace {

constexpr unsigned kUseBits = 2;
constexpr unsigned kLaneBits = 5;
static_assert(Tag::kLanes == 1U << kLaneBits);

}  // namespace

int mpi_tag(Tag tag, int tag_bits) {
  const unsigned sequence_bits = static_cast<unsigned>(tag_bits) - kUseBits - kLaneBits;
  if (tag.use == Tag::Use::kNamed && sequence_bits < MessageName::kBits) {
    throw CommError(
        fmt::format("this MPI's tags have {} bits, which leaves {} for the numbers of named "
                    "messages, and {} are "
                    "needed. Use another MPI (Open MPI's tags have 31).",
                    tag_bits, sequence_bits, MessageName::kBits));
  }
  // Operations under way are close in number: that the sequence wraps does no harm.
  const unsigned sequence = tag.sequence & ((1U << sequence_bits) - 1U);
  const unsigned use = static_cast<unsigned>(tag.use);
  return static_cast<int>((((sequence << kLaneBits) | tag.lane) << kUseBits) | use);
}

}  // namespace ultra::comm::mpi
