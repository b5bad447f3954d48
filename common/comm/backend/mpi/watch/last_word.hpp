#pragma once
/// @file
/// Who says why a program ends, when rank 0 cannot.

namespace ultra::comm::mpi {

/// @brief Whether this process is the first of its host that asks: it then says for all why the
/// program ends. Needs no MPI: the launcher's session folder keeps the answer.
[[nodiscard]] bool take_last_word();

}  // namespace ultra::comm::mpi
