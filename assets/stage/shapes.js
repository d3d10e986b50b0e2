/* Made by `python -m demo.screen.recording_format` from the models there: change those, not this. */

export const FRAMES = 5000;

export const SHAPES = {
  Candidates: {
    required: ["place", "words", "distances"],
    properties: {
      place: {
        maximum: 9007199254740991,
        minimum: 0,
        type: "integer",
      },
      words: {
        items: {
          maxLength: 200,
          type: "string",
        },
        maxItems: 1000,
        type: "array",
      },
      distances: {
        items: {
          maximum: 1000000000000.0,
          minimum: -1000000000000.0,
          type: "number",
        },
        maxItems: 1000,
        type: "array",
      },
    },
  },
  End: {
    required: ["headline"],
    properties: {
      headline: {
        maxLength: 2000,
        type: "string",
      },
      detail: {
        maxLength: 2000,
        type: "string",
      },
      certified: {
        type: "boolean",
      },
      exact: {
        type: "boolean",
      },
    },
  },
  Frame: {
    required: [
      "n",
      "step",
      "seconds",
      "left",
      "tokens",
      "marks",
      "sure",
      "others",
      "points",
      "objective",
      "recover",
      "rouge1",
      "rougeL",
      "stage",
    ],
    properties: {
      n: {
        maximum: 9007199254740991,
        minimum: 0,
        type: "integer",
      },
      step: {
        maximum: 9007199254740991,
        minimum: 0,
        type: "integer",
      },
      seconds: {
        maximum: 1000000000000.0,
        minimum: -1000000000000.0,
        type: "number",
      },
      left: {
        maximum: 1000000000000.0,
        minimum: -1000000000000.0,
        type: "number",
      },
      tokens: {
        items: {
          maxLength: 200,
          type: "string",
        },
        maxItems: 600,
        type: "array",
      },
      marks: {
        description: "made of = ~ x",
        maxLength: 600,
        pattern: "^[=~x]*$",
        type: "string",
      },
      sure: {
        items: {
          maximum: 100,
          minimum: 0,
          type: "number",
        },
        maxItems: 600,
        type: "array",
      },
      others: {
        items: {
          maxLength: 2000,
          type: "string",
        },
        maxItems: 600,
        type: "array",
      },
      points: {
        items: {
          description: "three numbers",
          items: {
            maximum: 1000000000000.0,
            minimum: -1000000000000.0,
            type: "number",
          },
          maxItems: 3,
          minItems: 3,
          type: "array",
        },
        maxItems: 600,
        type: "array",
      },
      objective: {
        maximum: 1000000000000.0,
        minimum: -1000000000000.0,
        type: "number",
        nullable: true,
      },
      recover: {
        maximum: 100,
        minimum: 0,
        type: "number",
      },
      rouge1: {
        maximum: 100,
        minimum: 0,
        type: "number",
      },
      rougeL: {
        maximum: 100,
        minimum: 0,
        type: "number",
      },
      stage: {
        maxLength: 2000,
        type: "string",
      },
      meaning: {
        maxLength: 200,
        type: "string",
      },
      candidates: {
        $ref: "#/$defs/Candidates",
        nullable: true,
      },
      growth: {
        description: "how a tree of prefixes grew",
        format: "tree",
        maxLength: 500000,
        type: "string",
      },
      masks: {
        items: {
          description: "base64",
          maxLength: 2000,
          pattern: "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
          type: "string",
        },
        maxItems: 600,
        type: "array",
      },
      masks_right: {
        items: {
          maximum: 100,
          minimum: 0,
          type: "number",
        },
        maxItems: 600,
        type: "array",
      },
    },
  },
  Objective: {
    required: ["name", "title", "about", "log"],
    properties: {
      name: {
        maxLength: 200,
        type: "string",
      },
      title: {
        maxLength: 200,
        type: "string",
      },
      about: {
        maxLength: 2000,
        type: "string",
      },
      log: {
        type: "boolean",
      },
      goal: {
        maximum: 1000000000000.0,
        minimum: -1000000000000.0,
        type: "number",
      },
    },
  },
  Start: {
    required: [
      "title",
      "attack",
      "device",
      "exposed",
      "budget",
      "recorded",
      "truth",
      "breaks",
      "truth_points",
      "background",
      "variance",
    ],
    properties: {
      title: {
        maxLength: 2000,
        type: "string",
      },
      attack: {
        maxLength: 200,
        type: "string",
      },
      device: {
        maxLength: 200,
        type: "string",
      },
      exposed: {
        maxLength: 2000,
        type: "string",
      },
      budget: {
        maximum: 1000000000000.0,
        minimum: -1000000000000.0,
        type: "number",
      },
      recorded: {
        type: "boolean",
      },
      truth: {
        items: {
          maxLength: 200,
          type: "string",
        },
        maxItems: 600,
        type: "array",
      },
      breaks: {
        items: {
          maximum: 9007199254740991,
          minimum: 0,
          type: "integer",
        },
        maxItems: 600,
        type: "array",
      },
      truth_points: {
        items: {
          description: "three numbers",
          items: {
            maximum: 1000000000000.0,
            minimum: -1000000000000.0,
            type: "number",
          },
          maxItems: 3,
          minItems: 3,
          type: "array",
        },
        maxItems: 600,
        type: "array",
      },
      background: {
        items: {
          description: "a word and three numbers",
          maxItems: 4,
          minItems: 4,
          prefixItems: [
            {
              maxLength: 200,
              type: "string",
            },
            {
              maximum: 1000000000000.0,
              minimum: -1000000000000.0,
              type: "number",
            },
            {
              maximum: 1000000000000.0,
              minimum: -1000000000000.0,
              type: "number",
            },
            {
              maximum: 1000000000000.0,
              minimum: -1000000000000.0,
              type: "number",
            },
          ],
          type: "array",
        },
        maxItems: 1000,
        type: "array",
      },
      variance: {
        items: {
          maximum: 100,
          minimum: 0,
          type: "number",
        },
        maxItems: 3,
        type: "array",
      },
      whose: {
        items: {
          maxLength: 200,
          type: "string",
        },
        maxItems: 600,
        type: "array",
      },
      unreadable: {
        maxLength: 200,
        type: "string",
      },
      objectives: {
        items: {
          $ref: "#/$defs/Objective",
        },
        maxItems: 1000,
        type: "array",
      },
    },
  },
};
