// The hooks that kernels for Hopper call: what a thread does alone goes to the units, what a warp does
// together meets first.

#include <array>

#include "kernels/simt/emulator/async/hooks.hpp"

#include "kernels/simt/emulator/async/units.hpp"
#include "kernels/simt/emulator/engine.hpp"

namespace ultra::simt::emulator {
namespace {

Units& units() { return Engine::of_this_thread().units(); }

// One lane's part in an operation of its whole warp.
struct WarpPart {
  std::uint32_t first;  // the operation's operands
  std::uint32_t second;
  SourceLine place;
  GatheringBarrier* barrier;
  std::uint32_t openings;
};

const WarpPart& part_of(std::span<void* const, 32> deposits, LaneMask mask) {
  if (mask != kWholeWarp) {
    refuse_source(0, 31, mask);
  }
  return *static_cast<const WarpPart*>(deposits[0]);
}

void meet_as_warp(WarpPart& part, Resolver resolve, const char* name) {
  meet({.mask = kWholeWarp,
        .resolve = resolve,
        .deposit = &part,
        .name = name,
        .place = part.place});
}

}  // namespace

std::uint32_t shared_address(const void* shared) {
  return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(shared) -
                                    reinterpret_cast<std::uintptr_t>(dynamic_shared_memory()));
}

unsigned rank_in_cluster() { return Engine::of_this_thread().rank_in_cluster(); }

void init_barrier(void* barrier, std::uint32_t arrivals, SourceLine place) {
  units().init_barrier(barrier, arrivals, place);
}
void publish_barriers(SourceLine) { units().publish_barriers(); }
void show_to_engines(SourceLine) { units().show_to_engines(); }
void arrive(void* barrier, std::uint32_t announced, SourceLine place) {
  units().arrive(barrier, announced, place);
}
void arrive_at(void* barrier, unsigned rank, SourceLine place) {
  units().arrive_at(barrier, rank, place);
}
void wait_for_phase(void* barrier, std::uint32_t parity, SourceLine place) {
  units().wait_for_phase(barrier, parity, place);
}
void synchronise_cluster(SourceLine place) { units().synchronise_cluster(place); }

void gather(unsigned name, std::uint32_t threads, AtBarrier what, SourceLine place) {
  WarpPart part{
      .first = name, .second = threads, .place = place, .barrier = nullptr, .openings = 0};
  const auto resolve = [](std::span<void* const, 32> deposits, LaneMask mask) {
    const WarpPart& first = part_of(deposits, mask);
    const auto [barrier, before] = units().come(first.first, first.second, first.place);
    for (void* const deposit : deposits) {
      static_cast<WarpPart*>(deposit)->barrier = barrier;
      static_cast<WarpPart*>(deposit)->openings = before;
    }
  };
  meet_as_warp(part, resolve, "bar");
  if (what == AtBarrier::kWait) {
    units().wait_until_open(*part.barrier, part.openings, place);
  }
}

void set_registers(Registers way, std::uint32_t count, SourceLine place) {
  WarpPart part{.first = count,
                .second = way == Registers::kGive ? 1U : 0U,
                .place = place,
                .barrier = nullptr,
                .openings = 0};
  const auto resolve = [](std::span<void* const, 32> deposits, LaneMask mask) {
    const WarpPart& first = part_of(deposits, mask);
    if (first.second == 1) {
      units().give_registers(first.first, first.place);
    }
  };
  meet_as_warp(part, resolve, "setmaxnreg");
  if (way == Registers::kTake) {
    units().take_registers(count, place);
  }
}

void fetch_box(const BoxMove& box) { units().fetch_box(box); }
void store_box(const BoxMove& box) { units().store_box(box); }
void commit_boxes() { units().commit_boxes(); }
void wait_for_boxes(std::uint32_t pending, SourceLine place) {
  units().wait_for_boxes(pending, place);
}

void begin_products(SourceLine place) {
  WarpPart part{.first = 0, .second = 0, .place = place, .barrier = nullptr, .openings = 0};
  meet_as_warp(
      part,
      [](std::span<void* const, 32> deposits, LaneMask mask) {
        part_of(deposits, mask);
        units().begin_products();
      },
      "wgmma.fence");
}

void commit_products(SourceLine place) {
  WarpPart part{.first = 0, .second = 0, .place = place, .barrier = nullptr, .openings = 0};
  meet_as_warp(
      part,
      [](std::span<void* const, 32> deposits, LaneMask mask) {
        part_of(deposits, mask);
        units().commit_products();
      },
      "wgmma.commit_group");
}

void wait_for_products(std::uint32_t pending, SourceLine place) {
  WarpPart part{.first = pending, .second = 0, .place = place, .barrier = nullptr, .openings = 0};
  meet_as_warp(
      part,
      [](std::span<void* const, 32> deposits, LaneMask mask) {
        const WarpPart& first = part_of(deposits, mask);
        units().wait_for_products(first.first, first.place);
      },
      "wgmma.wait_group");
}

void multiply_async(const Product& product, SourceLine place) {
  struct Part {
    const Product* product;
    SourceLine place;
  };
  Part part{.product = &product, .place = place};
  meet({.mask = kWholeWarp,
        .resolve =
            [](std::span<void* const, 32> deposits, LaneMask mask) {
              if (mask != kWholeWarp) {
                refuse_source(0, 31, mask);
              }
              std::array<const Product*, 32> products{};
              for (std::size_t lane = 0; lane < products.size(); ++lane) {
                products[lane] = static_cast<const Part*>(deposits[lane])->product;
              }
              units().multiply_async(products, static_cast<const Part*>(deposits[0])->place);
            },
        .deposit = &part,
        .name = "wgmma.mma_async",
        .place = place});
}

uint4 exchange_matrices(const unsigned (&registers)[4], SourceLine place) {
  struct Part {
    std::array<unsigned, 4> registers;
    std::array<unsigned, 4> row;
  };
  Part part{.registers = {registers[0], registers[1], registers[2], registers[3]}, .row = {}};
  meet({.mask = kWholeWarp,
        .resolve =
            [](std::span<void* const, 32> deposits, LaneMask mask) {
              if (mask != kWholeWarp) {
                refuse_source(0, 31, mask);
              }
              for (std::size_t lane = 0; lane < deposits.size(); ++lane) {
                auto& own = *static_cast<Part*>(deposits[lane]);
                for (std::size_t pair = 0; pair < own.row.size(); ++pair) {
                  own.row[pair] =
                      static_cast<const Part*>(deposits[lane % 8 * 4 + pair])->registers[lane / 8];
                }
              }
            },
        .deposit = &part,
        .name = "store_matrices",
        .place = place});
  return {.x = part.row[0], .y = part.row[1], .z = part.row[2], .w = part.row[3]};
}

void stop_kernel(SourceLine place) {
  Engine::of_this_thread().fail(Fault::kCuda, place, "the kernel stops itself (trap)");
}

}  // namespace ultra::simt::emulator
