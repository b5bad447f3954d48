#include "kernels/simt/emulator/async/matrix_store.hpp"

#include <array>

namespace ultra::simt::emulator {
namespace {

struct Part {
  std::array<unsigned, 4> registers;
  std::array<unsigned, 4> row;
};

void resolve(std::span<void* const, 32> deposits, LaneMask mask) {
  if (mask != kWholeWarp) {
    refuse_source(0, 31, mask);
  }
  for (std::size_t lane = 0; lane < deposits.size(); ++lane) {
    auto& own = *static_cast<Part*>(deposits[lane]);
    for (std::size_t pair = 0; pair < own.row.size(); ++pair) {
      own.row[pair] = static_cast<const Part*>(deposits[lane % 8 * 4 + pair])->registers[lane / 8];
    }
  }
}

}  // namespace

uint4 exchange_matrices(const unsigned (&registers)[4], Place place) {
  Part part{.registers = {registers[0], registers[1], registers[2], registers[3]}, .row = {}};
  meet({.mask = kWholeWarp,
        .resolve = &resolve,
        .deposit = &part,
        .name = "store_matrices",
        .place = place});
  return {.x = part.row[0], .y = part.row[1], .z = part.row[2], .w = part.row[3]};
}

}  // namespace ultra::simt::emulator
