"""Figures of training: how long each layer takes on each GPU, and how many bytes it holds.

Source: the profiles of Sailor (ETH Zurich, SOSP 2025, MIT license). A model is an embedding, a
row of equal blocks and a head. The times of a row are microseconds per layer for one
micro-batch, of blocks the mean over all of them; "update" is the optimiser's step per layer.
Bytes are those of one GPU at micro-batch 1: parameters in single precision, what goes on to the
next layer, and what is kept until the backward pass.

Two figures stand in for others. There is no profile of an H100: GH-96 is the same Hopper GPU,
with an H100's memory and links (`gpus.py`). And GPT-Neo-2.7 was not profiled on the A100 with
80 GB: it takes the times of the one with 40 GB, which is the same chip with slower memory.
"""

from __future__ import annotations

from typing import NamedTuple


class LayerTimes(NamedTuple):
    """Microseconds per layer for one micro-batch, with one way of tensor parallelism."""

    tensor_parallel: int
    micro_batch: int
    embedding_forward: int
    embedding_backward: int
    block_forward: int
    block_backward: int
    head_forward: int
    head_backward: int
    update: int


class LayerBytes(NamedTuple):
    parameters: int
    output: int
    kept: int


class ModelBytes(NamedTuple):
    embedding: LayerBytes
    block: LayerBytes
    head: LayerBytes


class Model(NamedTuple):
    """A model to train: its layers, the batch that its authors train with, bytes by tensor
    parallelism."""

    name: str
    blocks: int
    global_batch: int
    layer_bytes: dict[int, ModelBytes]


OPT_350 = Model(
    name="OPT-350",
    blocks=24,
    global_batch=1_024,
    layer_bytes={
        1: ModelBytes(
            LayerBytes(214_433_792, 8_388_608, 8_388_608),
            LayerBytes(50_384_896, 8_388_608, 360_726_528),
            LayerBytes(206_053_376, 412_090_372, 834_694_144),
        ),
        2: ModelBytes(
            LayerBytes(111_673_344, 8_388_608, 8_407_040),
            LayerBytes(25_204_736, 8_388_608, 192_954_368),
            LayerBytes(103_292_928, 206_569_476, 423_652_352),
        ),
        4: ModelBytes(
            LayerBytes(60_293_120, 8_388_608, 8_407_040),
            LayerBytes(12_614_656, 8_388_608, 109_068_288),
            LayerBytes(51_912_704, 103_809_028, 218_131_456),
        ),
    },
)

GPT_NEO_2_7 = Model(
    name="GPT-Neo-2.7",
    blocks=32,
    global_batch=2_048,
    layer_bytes={
        1: ModelBytes(
            LayerBytes(536_084_480, 20_971_520, 26_214_400),
            LayerBytes(314_705_920, 20_971_520, 681_607_168),
            LayerBytes(20_480, 20_971_524, 41_970_688),
        ),
        2: ModelBytes(
            LayerBytes(279_183_360, 20_971_520, 26_232_832),
            LayerBytes(157_383_680, 20_971_520, 388_005_888),
            LayerBytes(20_480, 20_971_524, 41_970_688),
        ),
        4: ModelBytes(
            LayerBytes(150_732_800, 20_971_520, 26_232_832),
            LayerBytes(78_722_560, 20_971_520, 244_350_976),
            LayerBytes(20_480, 20_971_524, 41_970_688),
        ),
    },
)

MODELS = {model.name: model for model in (OPT_350, GPT_NEO_2_7)}

_GPT_NEO_2_7_ON_A100_40 = (
    LayerTimes(1, 1, 3114, 3, 4871, 11726, 210, 522, 6550),
    LayerTimes(1, 2, 3676, 3, 9401, 22795, 408, 628, 6570),
    LayerTimes(1, 4, 4721, 3, 19141, 45767, 744, 871, 6559),
    LayerTimes(1, 8, 6101, 3, 39278, 93029, 1363, 1294, 6577),
    LayerTimes(2, 1, 3475, 3, 3044, 6595, 921, 503, 3356),
    LayerTimes(2, 2, 4077, 3, 5588, 12448, 455, 626, 3361),
    LayerTimes(2, 4, 5651, 3, 10886, 24591, 799, 852, 3370),
    LayerTimes(2, 8, 7815, 3, 21964, 49274, 1418, 1290, 3359),
    LayerTimes(4, 1, 4078, 3, 2445, 4128, 1226, 511, 1758),
    LayerTimes(4, 2, 4179, 3, 3573, 7378, 478, 612, 1752),
    LayerTimes(4, 4, 6166, 3, 6856, 14233, 825, 858, 1749),
    LayerTimes(4, 8, 8168, 3, 13414, 27868, 1431, 1285, 1746),
)
_GPT_NEO_2_7_ON_GH_96 = (
    LayerTimes(1, 1, 309, 2, 2134, 5827, 295, 396, 2857),
    LayerTimes(1, 2, 301, 1, 4211, 11332, 220, 422, 2867),
    LayerTimes(1, 4, 505, 2, 8361, 22636, 377, 580, 2926),
    LayerTimes(1, 8, 916, 2, 16318, 49300, 693, 785, 2895),
    LayerTimes(1, 16, 1708, 1, 36404, 97607, 1365, 1307, 2883),
    LayerTimes(1, 32, 3303, 1, 75639, 193971, 2649, 2340, 2875),
    LayerTimes(2, 1, 703, 2, 2741, 4534, 2055, 463, 1554),
    LayerTimes(2, 2, 1005, 1, 3051, 7203, 899, 523, 1554),
    LayerTimes(2, 4, 1525, 1, 5874, 13543, 440, 658, 1559),
    LayerTimes(2, 8, 2648, 2, 11408, 27208, 748, 776, 1562),
    LayerTimes(2, 16, 5054, 2, 22929, 55889, 1355, 1286, 1556),
    LayerTimes(2, 32, 9672, 1, 47361, 109599, 2580, 2156, 1550),
    LayerTimes(4, 1, 550, 1, 1507, 2309, 984, 406, 876),
    LayerTimes(4, 2, 705, 2, 2060, 3946, 1136, 485, 867),
    LayerTimes(4, 4, 1099, 2, 3211, 7255, 445, 548, 858),
    LayerTimes(4, 8, 1984, 1, 6245, 13929, 748, 821, 868),
    LayerTimes(4, 16, 3601, 2, 12315, 28474, 1339, 1246, 883),
    LayerTimes(4, 32, 6959, 2, 25340, 58622, 2595, 2255, 897),
)
_OPT_350_ON_A100_40 = (
    LayerTimes(1, 1, 400, 3, 2334, 5909, 4508, 3989, 2938),
    LayerTimes(1, 2, 426, 3, 4187, 11628, 8140, 7615, 2930),
    LayerTimes(1, 4, 508, 3, 8220, 22715, 16123, 14861, 2941),
    LayerTimes(1, 8, 685, 3, 16224, 44958, 32208, 29778, 2947),
    LayerTimes(2, 1, 824, 4, 1906, 3398, 2604, 2319, 1504),
    LayerTimes(2, 2, 880, 3, 2633, 6324, 4538, 4282, 1511),
    LayerTimes(2, 4, 1019, 3, 4756, 12287, 8236, 8097, 1512),
    LayerTimes(2, 8, 1438, 3, 9288, 23890, 16380, 15521, 1515),
    LayerTimes(4, 1, 962, 3, 2131, 2278, 2211, 2078, 976),
    LayerTimes(4, 2, 985, 3, 2391, 4022, 2918, 3069, 947),
    LayerTimes(4, 4, 1046, 3, 3014, 6854, 4449, 4769, 955),
    LayerTimes(4, 8, 1559, 4, 5646, 13382, 8446, 8591, 938),
)
_OPT_350_ON_A100_80 = (
    LayerTimes(1, 1, 214, 2, 1769, 5130, 3808, 4002, 2545),
    LayerTimes(1, 2, 222, 2, 3479, 10128, 7513, 7658, 2554),
    LayerTimes(1, 4, 326, 2, 6791, 19944, 14954, 15365, 2551),
    LayerTimes(1, 8, 552, 2, 13210, 39959, 30251, 32192, 2567),
    LayerTimes(1, 16, 1050, 2, 27058, 80032, 62701, 64127, 2560),
    LayerTimes(1, 32, 2069, 3, 56244, 159185, 127075, 130673, 2558),
    LayerTimes(2, 1, 677, 2, 1504, 3093, 2170, 2330, 1372),
    LayerTimes(2, 2, 776, 2, 2344, 5739, 3902, 4347, 1380),
    LayerTimes(2, 4, 1125, 3, 4601, 11278, 7704, 8343, 1365),
    LayerTimes(2, 8, 1779, 2, 9000, 22421, 15153, 16513, 1357),
    LayerTimes(2, 16, 3322, 3, 17576, 44924, 30214, 33679, 1350),
    LayerTimes(2, 32, 6735, 3, 35127, 89199, 62001, 68981, 1358),
    LayerTimes(4, 1, 629, 2, 1161, 1840, 1452, 1510, 738),
    LayerTimes(4, 2, 691, 3, 1620, 3272, 2258, 2506, 735),
    LayerTimes(4, 4, 926, 2, 2506, 6032, 4048, 4693, 741),
    LayerTimes(4, 8, 1483, 3, 4988, 11929, 8021, 9013, 740),
    LayerTimes(4, 16, 2535, 3, 9568, 23617, 15821, 17753, 751),
    LayerTimes(4, 32, 4999, 2, 18726, 47159, 32488, 36234, 746),
)
_OPT_350_ON_GH_96 = (
    LayerTimes(1, 1, 220, 2, 1232, 2685, 2068, 2109, 1337),
    LayerTimes(1, 2, 209, 2, 1784, 5211, 3585, 3832, 1348),
    LayerTimes(1, 4, 236, 2, 3581, 10346, 7139, 7662, 1368),
    LayerTimes(1, 8, 369, 2, 7014, 21506, 14852, 19173, 1392),
    LayerTimes(1, 16, 609, 2, 13536, 43916, 30179, 39751, 1361),
    LayerTimes(1, 32, 1107, 2, 27688, 86816, 63340, 82471, 1355),
    LayerTimes(2, 1, 455, 2, 1435, 1688, 1531, 1307, 762),
    LayerTimes(2, 2, 514, 2, 1629, 3123, 2174, 2209, 759),
    LayerTimes(2, 4, 820, 2, 2723, 6083, 3906, 4244, 768),
    LayerTimes(2, 8, 1207, 2, 4945, 12087, 7479, 10053, 765),
    LayerTimes(2, 16, 2209, 2, 9709, 24942, 14905, 19752, 782),
    LayerTimes(2, 32, 4549, 2, 18707, 49301, 30315, 42454, 771),
    LayerTimes(4, 1, 967, 2, 1500, 1728, 2405, 1663, 447),
    LayerTimes(4, 2, 456, 2, 1700, 1845, 1632, 1493, 429),
    LayerTimes(4, 4, 630, 2, 1704, 3320, 2424, 2579, 472),
    LayerTimes(4, 8, 922, 1, 2697, 6470, 4014, 5944, 479),
    LayerTimes(4, 16, 1611, 1, 5388, 12997, 7945, 11266, 502),
    LayerTimes(4, 32, 3082, 1, 10346, 26137, 15959, 24084, 493),
)

# By model, then by profiled GPU.
TIMES: dict[str, dict[str, tuple[LayerTimes, ...]]] = {
    "GPT-Neo-2.7": {
        "A100-40": _GPT_NEO_2_7_ON_A100_40,
        "GH-96": _GPT_NEO_2_7_ON_GH_96,
        "A100-80": _GPT_NEO_2_7_ON_A100_40,
    },
    "OPT-350": {
        "A100-40": _OPT_350_ON_A100_40,
        "A100-80": _OPT_350_ON_A100_80,
        "GH-96": _OPT_350_ON_GH_96,
    },
}
